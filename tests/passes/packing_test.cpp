// Tests the passes that merge several products and their readers: what they find, and what they leave alone.
#include "passes/grouping/passes.h"
#include "passes/memory/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

using Run = Graph (*)(const Graph&, const PassContext&);

void expect_changed(Run pass, const std::string& inputs, const std::string& before,
                    const std::string& after) {
  EXPECT_EQ(text_after(entry(inputs, before), pass), normal_text(entry(inputs, after))) << before;
}

void expect_untouched(Run pass, const std::string& inputs, const std::string& body) {
  EXPECT_EQ(text_after(entry(inputs, body), pass), normal_text(entry(inputs, body)));
}

// Returns the attention of three values by features: the nodes after c_attn of GPT-2.
std::string heads_of(const std::string& q, const std::string& k, const std::string& v) {
  return " %q4 = reshape(" + q + ") {shape=[2,5,4,8]}\n %k4 = reshape(" + k +
         ") {shape=[2,5,2,8]}\n %v4 = reshape(" + v +
         ") {shape=[2,5,2,8]}\n %y = attention(%q4, %k4, %v4) {causal=true}\n return y = %y";
}

TEST(PackAttention, ReadsThePartsOfOneProductWhereTheyStand) {
  const char* after =
      "%reshape = reshape(x) {shape=[2,5,8,8]}\n"
      " %attention = attention(%reshape) {causal=true, packed_key_heads=2}\n return y = %attention";
  const std::string slices =
      "%q = slice(x) {axis=2, length=[32]}\n %k = slice(x) {axis=2, start=[32], length=[16]}\n"
      " %v = slice(x) {axis=-1, start=[48], length=[16]}\n";
  expect_changed(pack_attention, "x: f32[2,5,64]", slices + heads_of("%q", "%k", "%v"), after);
  expect_changed(pack_attention, "x: f32[2,5,64]",
                 std::string("%s = split(x) {axis=2, sizes=(32, 16, 16)}\n") + heads_of("%s", "%s:1", "%s:2"),
                 after);
}

TEST(PackAttention, RotatesQueriesAndKeysTogether) {
  const std::string before =
      "%s = split(x) {axis=2, sizes=(32, 16, 16)}\n"
      " %q4 = reshape(%s) {shape=[2,5,4,8]}\n %k4 = reshape(%s:1) {shape=[2,5,2,8]}\n"
      " %v4 = reshape(%s:2) {shape=[2,5,2,8]}\n"
      " %qr = rope(%q4, p) {theta=100.0}\n %kr = rope(%k4, p) {theta=100.0}\n"
      " %y = attention(%qr, %kr, %v4, m) {has_mask=true}\n return y = %y";
  const char* inputs = "x: f32[2,5,64], p: i64[5], m: bool[5,5]";
  expect_changed(
      pack_attention, inputs, before,
      "%reshape = reshape(x) {shape=[2,5,8,8]}\n %rope = rope(%reshape, p) {theta=100.0, heads=6}\n"
      " %attention = attention(%rope, m) {has_mask=true, packed_key_heads=2}\n"
      " return y = %attention");
  std::string other = before;
  other.replace(other.rfind("100.0"), 5, "200.0");
  expect_untouched(pack_attention, inputs, other);
}

TEST(PackAttention, LeavesWhatDoesNotStandSideBySide) {
  expect_untouched(pack_attention, "x: f32[2,5,64]",
                   "%q = slice(x) {axis=2, length=[32]}\n"
                   " %v = slice(x) {axis=2, start=[32], length=[16]}\n"
                   " %k = slice(x) {axis=2, start=[48], length=[16]}\n" +
                       heads_of("%q", "%k", "%v"));
  expect_untouched(pack_attention, "x: f32[2,5,70]",
                   "%s = split(x) {axis=2, sizes=(32, 16, 16, 6)}\n" + heads_of("%s", "%s:1", "%s:2"));
  expect_untouched(pack_attention, "x: f32[2,5,32], k: f32[2,5,16], v: f32[2,5,16]",
                   "%q4 = reshape(x) {shape=[2,5,4,8]}\n %k4 = reshape(k) {shape=[2,5,2,8]}\n"
                   " %v4 = reshape(v) {shape=[2,5,2,8]}\n %y = attention(%q4, %k4, %v4)\n return y = %y");
  // Something else reads the keys: a cache.
  expect_untouched(
      pack_attention, "x: f32[2,5,64]",
      "%s = split(x) {axis=2, sizes=(32, 16, 16)}\n" + heads_of("%s", "%s:1", "%s:2") + "\n return k = %k4");
}

std::string with_states(const std::string& states, const std::string& inputs, const std::string& body) {
  return states + entry(inputs, body);
}

TEST(MergeProjections, MakesGateAndUpOneProduct) {
  const std::string states =
      "state @g: f32[6,3] parameter trainable\nstate @u: f32[6,3] parameter trainable\n";
  const std::string casts = "%gc = cast(@g) {dtype=bf16}\n %uc = cast(@u) {dtype=bf16}\n";
  const std::string before =
      casts + " %gate = linear(x, %gc)\n %up = linear(x, %uc)\n %y = swiglu(%gate, %up)\n return y = %y";
  EXPECT_EQ(text_after(with_states(states, "x: bf16[2,3]", before), merge_projections),
            normal_text(with_states(states, "x: bf16[2,3]",
                                    casts + " %concat = concat(%gc, %uc)\n %linear = linear(x, %concat)\n"
                                            " %swiglu = swiglu(%linear)\n return y = %swiglu")));
  const auto untouched = [&](const std::string& inputs, const std::string& body) {
    const std::string text = with_states(states, inputs, body);
    EXPECT_EQ(text_after(text, merge_projections), normal_text(text));
  };
  // Another x; a separate reader; weights that nothing casts.
  untouched(
      "x: bf16[2,3], z: bf16[2,3]",
      casts + " %gate = linear(x, %gc)\n %up = linear(z, %uc)\n %y = swiglu(%gate, %up)\n return y = %y");
  untouched("x: bf16[2,3]", before + "\n return up = %up");
  untouched("x: f32[2,3]",
            "%gate = linear(x, @g)\n %up = linear(x, @u)\n %y = swiglu(%gate, %up)\n return y = %y");
}

TEST(MergeProjections, MakesQueriesKeysAndValuesOneProduct) {
  const std::string states =
      "state @q: f32[16,3] parameter trainable\nstate @k: f32[8,3] parameter trainable\n"
      "state @v: f32[8,3] parameter trainable\nstate @qb: f32[16] parameter trainable\n"
      "state @kb: f32[8] parameter trainable\nstate @vb: f32[8] parameter trainable\n";
  const std::string casts =
      "%qc = cast(@q) {dtype=bf16}\n %kc = cast(@k) {dtype=bf16}\n %vc = cast(@v) {dtype=bf16}\n"
      " %qbc = cast(@qb) {dtype=bf16}\n %kbc = cast(@kb) {dtype=bf16}\n %vbc = cast(@vb) {dtype=bf16}\n";
  const std::string inputs = "x: bf16[2,5,3], p: i64[5]";
  const auto body = [&](const std::string& k_bias) {
    return casts + " %ql = linear(x, %qc, %qbc)\n %kl = linear(x, %kc" + k_bias +
           ")\n %vl = linear(x, %vc, %vbc)\n"
           " %q4 = reshape(%ql) {shape=[2,5,4,4]}\n %k4 = reshape(%kl) {shape=[2,5,2,4]}\n"
           " %v4 = reshape(%vl) {shape=[2,5,2,4]}\n %qr = rope(%q4, p)\n %kr = rope(%k4, p)\n"
           " %y = attention(%qr, %kr, %v4) {causal=true}\n return y = %y";
  };
  EXPECT_EQ(
      text_after(with_states(states, inputs, body(", %kbc")), merge_projections),
      normal_text(with_states(
          states, inputs,
          casts + " %concat = concat(%qc, %kc, %vc)\n %concat_1 = concat(%qbc, %kbc, %vbc)\n"
                  " %linear = linear(x, %concat, %concat_1)\n"
                  " %reshape = reshape(%linear) {shape=[2,5,8,4]}\n %rope = rope(%reshape, p) {heads=6}\n"
                  " %attention = attention(%rope) {causal=true, packed_key_heads=2}\n"
                  " return y = %attention")));
  const std::string text = with_states(states, inputs, body("") + "\n return kbc = %kbc");
  EXPECT_EQ(text_after(text, merge_projections), normal_text(text)) << "one layer has no bias";
}

// LoRA adapters: their first weights are merged like the layers', which stay unchanged. Their second weights form a
// block diagonal.
TEST(MergeProjections, TakesAdaptersAlong) {
  const std::string states =
      "state @gw: bf16[6,3] parameter\nstate @uw: bf16[6,3] parameter\n"
      "state @ga: f32[2,3] parameter trainable\nstate @ua: f32[1,3] parameter trainable\n"
      "state @gb: f32[6,2] parameter trainable\nstate @ub: f32[6,1] parameter trainable\n";
  const std::string casts =
      "%gac = cast(@ga) {dtype=bf16}\n %uac = cast(@ua) {dtype=bf16}\n"
      " %gbc = cast(@gb) {dtype=bf16}\n %ubc = cast(@ub) {dtype=bf16}\n %s = full() {dtype=bf16, value=2}\n";
  const auto layer = [](const std::string& name, const std::string& x, const std::string& scale) {
    return " %" + name + " = linear(x, @" + name + "w)\n %" + name + "d = linear(" + x + ", %" + name +
           "ac)\n %" + name + "m = mul(%" + name + "d, " + scale + ")\n %" + name + "y = linear(%" + name +
           "m, %" + name + "bc, %" + name + ") {has_addend=true}\n";
  };
  const std::string end = " %y = swiglu(%gy, %uy)\n return y = %y";
  EXPECT_EQ(text_after(with_states(states, "x: bf16[2,3]",
                                   casts + layer("g", "x", "%s") + layer("u", "x", "%s") + end),
                       merge_projections),
            normal_text(with_states(states, "x: bf16[2,3]",
                                    casts + " %concat = concat(@gw, @uw)\n %linear = linear(x, %concat)\n"
                                            " %concat_1 = concat(%gac, %uac)\n %linear_1 = linear(x, "
                                            "%concat_1)\n %mul = mul(%linear_1, %s)\n"
                                            " %pad = pad(%gbc) {after=(0, 1), before=(0, 0)}\n %pad_1 = "
                                            "pad(%ubc) {after=(0, 0), before=(0, 2)}\n"
                                            " %concat_2 = concat(%pad, %pad_1)\n %linear_2 = linear(%mul, "
                                            "%concat_2, %linear) {has_addend=true}\n"
                                            " %swiglu = swiglu(%linear_2)\n return y = %swiglu")));
  const auto untouched = [&](const std::string& body) {
    const std::string text = with_states(states, "x: bf16[2,3], z: bf16[2,3]", casts + body);
    EXPECT_EQ(text_after(text, merge_projections), normal_text(text));
  };
  const std::string g = layer("g", "x", "%s");
  untouched(g + layer("u", "z", "%s") + end);  // an adapter of another input
  untouched(g + " %t = full() {dtype=bf16, value=3}\n" + layer("u", "x", "%t") + end);
  untouched(g + " %uy = linear(x, @uw)\n" + end);  // no adapter
  untouched(g + layer("u", "x", "%s") + end + "\n return um = %um");
  // Copies of frozen weights would take more than 1 GiB.
  std::string large = with_states(states, "x: bf16[2,3]", casts + g + layer("u", "x", "%s") + end);
  for (size_t at = large.find("[6,"); at != std::string::npos; at = large.find("[6,", at))
    large.replace(at, 3, "[99999999,");
  EXPECT_EQ(text_after(large, merge_projections), normal_text(large));
}

TEST(RecomputeOutputs, LetsTheGradientMakeTheOutputForWhoWaitsForIt) {
  const char* inputs = "g: f32[4,6], u: f32[4,6], w: f32[3,6], dy: f32[4,3]";
  expect_changed(recompute_outputs, inputs,
                 "%h = swiglu(g, u)\n %y = linear(%h, w)\n %d = sub(%y, dy)\n"
                 " %dw = matmul(%d, %h) {transpose_a=true}\n %sum = sum(%dw)\n %dh = matmul(%d, w)\n"
                 " %dx = swiglu_grad(g, u, %dh)\n return dw = %dw\n return s = %sum\n return dg = %dx\n"
                 " return du = %dx:1",
                 "%h = swiglu(g, u)\n %y = linear(%h, w)\n %d = sub(%y, dy)\n %dh = matmul(%d, w)\n"
                 " %dx = swiglu_grad(g, u, %dh) {with_output=true}\n"
                 " %dw = matmul(%d, %dx:2) {transpose_a=true}\n %sum = sum(%dw)\n return dw = %dw\n"
                 " return s = %sum\n return dg = %dx\n return du = %dx:1");
}

TEST(RecomputeOutputs, LeavesAnOutputThatSomebodyKeepsOrNobodyWaitsFor) {
  const char* inputs = "g: f32[4,6], u: f32[4,6], w: f32[3,6], dy: f32[4,3]";
  const std::string body =
      "%h = swiglu(g, u)\n %y = linear(%h, w)\n %d = sub(%y, dy)\n %dh = matmul(%d, w)\n"
      " %dx = swiglu_grad(g, u, %dh)\n return dg = %dx\n return du = %dx:1";
  expect_untouched(recompute_outputs, inputs, body);
  expect_untouched(recompute_outputs, inputs,
                   "%h = swiglu(g, u)\n %d = matmul(%h, w) {transpose_b=true}\n %dh = matmul(%d, w)\n"
                   " %dx = swiglu_grad(g, u, %dh)\n %dw = matmul(%d, %h) {transpose_a=true}\n"
                   " return dg = %dx\n return dw = %dw\n return h = %h");
}

TEST(RecomputeOutputs, OfNorms) {
  const char* inputs = "x: f32[4,6], g: f32[6], b: f32[6], w: f32[3,6], dy: f32[4,3]";
  const std::string results = "return dw = %dw\n return dx = %dx\n return dg = %dx:1";
  expect_changed(recompute_outputs, inputs,
                 "%h = layer_norm(x, g, b) {eps=0.1, has_bias=true, has_weight=true}\n %y = linear(%h, w)\n"
                 "%d = sub(%y, dy)\n %dw = matmul(%d, %h) {transpose_a=true}\n %dh = matmul(%d, w)\n"
                 "%dx = layer_norm_grad(x, %dh, g) {eps=0.1, has_weight=true, want_weight=true}\n" +
                     results,
                 "%h = layer_norm(x, g, b) {eps=0.1, has_bias=true, has_weight=true}\n %y = linear(%h, w)\n"
                 "%d = sub(%y, dy)\n %dh = matmul(%d, w)\n"
                 "%dx = layer_norm_grad(x, %dh, g, b) {eps=0.1, has_bias=true, has_weight=true, "
                 "want_weight=true, with_output=true}\n"
                 "%dw = matmul(%d, %dx:2) {transpose_a=true}\n" +
                     results);
  const std::string rest =
      " %y = linear(%h, w)\n %d = sub(%y, dy)\n %dw = matmul(%d, %h) {transpose_a=true}\n"
      " %dh = matmul(%d, w)\n %dx = rms_norm_grad(x, %dh, g) {has_weight=true, want_weight=true}\n" +
      results;
  expect_changed(recompute_outputs, inputs, "%h = rms_norm(x, g) {has_weight=true}\n" + rest,
                 "%h = rms_norm(x, g) {has_weight=true}\n %y = linear(%h, w)\n %d = sub(%y, dy)\n"
                 " %dh = matmul(%d, w)\n"
                 " %dx = rms_norm_grad(x, %dh, g) {has_weight=true, want_weight=true, with_output=true}\n"
                 " %dw = matmul(%d, %dx:2) {transpose_a=true}\n" +
                     results);
  expect_untouched(recompute_outputs, inputs, "%h = rms_norm(x, g) {eps=0.5, has_weight=true}\n" + rest);
}

}  // namespace
}  // namespace genesis::passes
