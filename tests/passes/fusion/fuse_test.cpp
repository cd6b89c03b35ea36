// Tests pattern fusion: what it finds, and what it leaves alone.
#include <algorithm>

#include "passes/fusion/passes.h"
#include "passes/grouping/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

using Run = Graph (*)(const Graph&, const PassContext&);

void expect_fused(Run pass, const std::string& inputs, const std::string& before, const std::string& after) {
  EXPECT_EQ(text_after(entry(inputs, before), pass), normal_text(entry(inputs, after))) << before;
}

void expect_untouched(Run pass, const std::string& inputs, const std::string& body) {
  EXPECT_EQ(text_after(entry(inputs, body), pass), normal_text(entry(inputs, body)));
}

TEST(FuseLinear, TakesTheBias) {
  const char* inputs = "x: f32[2,5,3], w: f32[4,3], b: f32[4]";
  expect_fused(fuse_linear, inputs, "%m = matmul(x, w) {transpose_b=true}\n %y = add(%m, b)\n return y = %y",
               "%linear = linear(x, w, b)\n return y = %linear");
  expect_fused(fuse_linear, inputs, "%m = linear(x, w)\n %y = add(b, %m)\n return y = %y",
               "%linear = linear(x, w, b)\n return y = %linear");
}

TEST(FuseLinear, NeedsTheProductForItselfAndAPlainBias) {
  const char* inputs = "x: f32[2,3], w: f32[4,3], b: f32[4], c: f32[2,4], s: f32[]";
  expect_untouched(fuse_linear, inputs,
                   "%m = linear(x, w)\n %y = add(%m, b)\n return y = %y\n return m = %m");
  expect_untouched(fuse_linear, inputs, "%m = linear(x, w)\n %y = add(%m, c)\n return y = %y");
  expect_untouched(fuse_linear, inputs, "%m = linear(x, w)\n %y = add(%m, s)\n return y = %y");
  expect_untouched(fuse_linear, inputs,
                   "%m = linear(x, w) {activation=\"relu\"}\n %y = add(%m, b)\n return y = %y");
  expect_untouched(fuse_linear, "x: f32[2,3], w: f32[3,4], b: f32[4]",
                   "%m = matmul(x, w)\n %y = add(%m, b)\n return y = %y");
}

TEST(FuseActivation, FollowsTheProduct) {
  const char* inputs = "x: f32[2,3], w: f32[4,3], b: f32[4]";
  expect_fused(fuse_activation, inputs,
               "%m = linear(x, w, b)\n %y = gelu(%m) {approximate=\"tanh\"}\n return y = %y",
               "%linear = linear(x, w, b) {activation=\"gelu_tanh\"}\n return y = %linear");
  expect_fused(fuse_activation, inputs, "%m = linear(x, w)\n %y = silu(%m)\n return y = %y",
               "%linear = linear(x, w) {activation=\"silu\"}\n return y = %linear");
  expect_untouched(fuse_activation, inputs,
                   "%m = linear(x, w)\n %y = relu(%m)\n return y = %y\n return m = %m");
  expect_untouched(fuse_activation, inputs, "%m = linear(x, w)\n %y = tanh(%m)\n return y = %y");
}

TEST(FuseSwiglu, KnowsBothSpellingsOfSilu) {
  const char* inputs = "g: f32[2,3], u: f32[2,3], row: f32[3]";
  expect_fused(fuse_swiglu, inputs, "%a = silu(g)\n %y = mul(u, %a)\n return y = %y",
               "%swiglu = swiglu(g, u)\n return y = %swiglu");
  expect_fused(fuse_swiglu, inputs, "%s = sigmoid(g)\n %a = mul(%s, g)\n %y = mul(%a, u)\n return y = %y",
               "%swiglu = swiglu(g, u)\n return y = %swiglu");
  expect_fused(fuse_swiglu, inputs, "%s = sigmoid(g)\n %y = mul(g, %s)\n return y = %y",
               "%silu = silu(g)\n return y = %silu");
  expect_untouched(fuse_swiglu, inputs, "%a = silu(g)\n %y = mul(row, %a)\n return y = %y");
  expect_untouched(fuse_swiglu, inputs, "%a = silu(g)\n %y = mul(u, %a)\n return y = %y\n return a = %a");
  expect_untouched(fuse_swiglu, inputs, "%s = sigmoid(u)\n %y = mul(g, %s)\n return y = %y");
}

TEST(FuseEmbeddingGrad, AddsTheRowsToTheHeadsGradient) {
  const char* inputs = "head: f32[9,4], i: i64[2,3], dy: f32[2,3,4], low: bf16[2,3,4]";
  const char* after =
      "%reshape = reshape(i) {shape=[6]}\n %reshape_1 = reshape(dy) {shape=[6,4]}\n"
      " %index_add = index_add(head, %reshape, %reshape_1)\n return y = %index_add";
  expect_fused(fuse_embedding_grad, inputs,
               "%g = embedding_grad(i, dy) {rows=[9]}\n %y = add(head, %g)\n return y = %y", after);
  expect_fused(fuse_embedding_grad, inputs,
               "%g = embedding_grad(i, dy) {rows=[9]}\n %y = add(%g, head)\n return y = %y", after);
  expect_fused(fuse_embedding_grad, inputs,
               "%g = embedding_grad(i, low) {rows=[9]}\n %c = cast(%g) {dtype=f32}\n %y = add(head, %c)\n "
               "return y = %y",
               "%reshape = reshape(i) {shape=[6]}\n %reshape_1 = reshape(low) {shape=[6,4]}\n"
               " %cast = cast(%reshape_1) {dtype=f32}\n %index_add = index_add(head, %reshape, %cast)\n "
               "return y = %index_add");
  expect_untouched(
      fuse_embedding_grad, inputs,
      "%g = embedding_grad(i, dy) {rows=[9]}\n %y = add(head, %g)\n return y = %y\n return g = %g");
  expect_untouched(
      fuse_embedding_grad, inputs,
      "%g = embedding_grad(i, dy) {padding_idx=2, rows=[9]}\n %y = add(head, %g)\n return y = %y");
}

std::string merged(const std::string& inputs, const std::string& body, bool natively = true) {
  const Target target{.is_native = natively ? nullptr : never_native};
  return text_after(entry(inputs, body), merge_linear, {.target = &target});
}

TEST(MergeLinear, LayersThatShareX) {
  EXPECT_EQ(merged("x: f32[1,2,3], a: f32[4,3], b: f32[5,3], c: f32[6,3]",
                   "%p = linear(x, a)\n %n = neg(%p)\n %q = linear(x, b)\n %r = linear(x, c)\n"
                   "return n = %n\n return q = %q\n return r = %r"),
            normal_text(entry("x: f32[1,2,3], a: f32[4,3], b: f32[5,3], c: f32[6,3]",
                              "%linear = linear(x, a, b, c) {weights=3}\n %n = neg(%linear)\n"
                              "return n = %n\n return q = %linear:1\n return r = %linear:2")));
}

TEST(MergeLinear, GateAndUp) {
  const char* inputs = "x: f32[2,3], g: f32[4,3], u: f32[4,3], bg: f32[4], bu: f32[4]";
  EXPECT_EQ(
      merged(inputs,
             "%gate = linear(x, g, bg)\n %up = linear(x, u, bu)\n %y = swiglu(%gate, %up)\n return y = %y"),
      normal_text(
          entry(inputs,
                "%linear = linear(x, g, u, bg, bu) {weights=2, epilogue=\"swiglu\"}\n return y = %linear")));
}

// The other layer has an addend in the place where the gate has its bias.
TEST(MergeLinear, LeavesAnAddendBesideABias) {
  const char* inputs = "x: f32[2,3], g: f32[4,3], u: f32[4,3], b: f32[4], r: f32[2,4]";
  for (const char* order : {"swiglu(%p, %q)", "swiglu(%q, %p)"}) {
    const std::string body =
        std::string("%p = linear(x, g, b)\n %q = linear(x, u, r) {has_addend=true}\n %y = ") + order +
        "\n return y = %y";
    EXPECT_EQ(merged(inputs, body), normal_text(entry(inputs, body)));
  }
}

TEST(MergeLinear, LeavesWhatDiffers) {
  const char* inputs = "x: f32[2,3], z: f32[2,3], a: f32[4,3], b: f32[4,3], c: f32[4]";
  const auto untouched = [&](const std::string& first, const std::string& second, bool natively = true) {
    const std::string body =
        "%p = linear(" + first + "\n %q = linear(" + second + "\n return p = %p\n return q = %q";
    EXPECT_EQ(merged(inputs, body, natively), normal_text(entry(inputs, body))) << body;
  };
  untouched("x, a)", "z, b)");
  untouched("x, a)", "x, b, c)");
  untouched("x, a)", "x, b) {activation=\"relu\"}");
  untouched("x, a)", "x, b)", false);
}

TEST(MergeLinear, LeavesAWeightThatIsMadeLater) {
  const char* inputs = "x: f32[2,3], a: f32[4,3], b: f32[4,3]";
  const std::string body =
      "%p = linear(x, a)\n %c = neg(b)\n %q = linear(x, %c)\n return p = %p\n return q = %q";
  EXPECT_EQ(merged(inputs, body), normal_text(entry(inputs, body)));
}

TEST(MergeLinear, LeavesGateAndUpWithOtherReaders) {
  const char* inputs = "x: f32[2,3], g: f32[4,3], u: f32[4,3]";
  const std::string text = merged(inputs,
                                  "%gate = linear(x, g)\n %up = linear(x, u)\n %y = swiglu(%gate, %up)\n "
                                  "return y = %y\n return up = %up");
  EXPECT_NE(text.find("linear(x, g, u)"), std::string::npos) << text;
  EXPECT_NE(text.find("swiglu("), std::string::npos) << text;
}

TEST(MergeLinear, LeavesGateAndUpThatAreOneProduct) {
  const std::string text =
      merged("x: f32[2,3], w: f32[8,3]", "%both = linear(x, w)\n %y = swiglu(%both)\n return y = %y");
  EXPECT_NE(text.find("swiglu(%both)"), std::string::npos) << text;
}

// Layers that each decoder block applies to one encoder's output stay where they are.
TEST(MergeLinear, LeavesLayersFarApart) {
  const char* inputs = "x: f32[2,3], a: f32[4,3], b: f32[4,3]";
  std::string body = "%p = linear(x, a)\n %n0 = neg(%p)\n";
  for (int i = 1; i <= 16; ++i) body += fmt::format(" %n{} = neg(%n{})\n", i, i - 1);
  body += " %q = linear(x, b)\n return n = %n16\n return q = %q";
  EXPECT_EQ(merged(inputs, body), normal_text(entry(inputs, body)));
}

TEST(FuseNorms, RmsNormInItsSpellings) {
  const char* inputs = "x: f32[2,3], w: f32[3]";
  const char* after = "%rms_norm_1 = rms_norm(x, w) {eps=1e-05, has_weight=true}\n return y = %rms_norm_1";
  expect_fused(fuse_norms, inputs, R"(
    %s = square(x)
    %m = mean(%s) {axes=(-1), keep_dims=true}
    %e = full() {value=1e-05}
    %a = add(%m, %e)
    %r = rsqrt(%a)
    %n = mul(x, %r)
    %y = mul(w, %n)
    return y = %y)",
               after);
  expect_fused(fuse_norms, inputs, R"(
    %two = full() {value=2.0}
    %s = pow(x, %two)
    %m = mean(%s) {axes=(1), keep_dims=true}
    %e = full() {value=1e-05}
    %a = add(%e, %m)
    %r = sqrt(%a)
    %n = div(x, %r)
    %y = mul(%n, w)
    return y = %y)",
               after);
}

TEST(FuseNorms, LayerNormInItsSpellings) {
  const char* inputs = "x: f32[2,3], w: f32[3], b: f32[3]";
  const char* after =
      "%layer_norm = layer_norm(x, w, b) {eps=1e-06, has_bias=true, has_weight=true}\n return y = "
      "%layer_norm";
  const std::string variances[] = {
      "%s = mul(%d, %d)\n %v = mean(%s) {axes=(-1), keep_dims=true}",
      "%v = var(x) {axes=(-1), correction=0, keep_dims=true}",
  };
  for (const std::string& variance : variances)
    expect_fused(fuse_norms, inputs,
                 "%m = mean(x) {axes=(-1), keep_dims=true}\n %d = sub(x, %m)\n" + variance + R"(
    %e = full() {value=1e-06}
    %a = add(%v, %e)
    %r = rsqrt(%a)
    %n = mul(%r, %d)
    %h = mul(%n, w)
    %y = add(%h, b)
    return y = %y)",
                 after);
}

TEST(FuseNorms, LeavesOtherAxesAndOtherMoments) {
  const auto body = [](const std::string& moment) {
    return moment + R"(
    %e = full() {value=1e-05}
    %a = add(%m, %e)
    %r = rsqrt(%a)
    %n = mul(x, %r)
    return y = %n)";
  };
  const char* inputs = "x: f32[3,3], z: f32[3,3]";
  expect_untouched(fuse_norms, inputs, body("%s = square(x)\n %m = mean(%s) {axes=(0), keep_dims=true}"));
  expect_untouched(fuse_norms, inputs, body("%s = square(x)\n %m = mean(%s) {axes=(-1)}"));
  expect_untouched(fuse_norms, inputs, body("%s = square(z)\n %m = mean(%s) {axes=(-1), keep_dims=true}"));
  expect_untouched(fuse_norms, inputs, body("%m = var(x) {axes=(-1), correction=0, keep_dims=true}"));
}

const char* const kHeads = "q: f32[2,4,5,8], k: f32[2,4,5,8], v: f32[2,4,5,8], m: f32[5,5], c: bool[2,1,1,5]";

void expect_attention(const std::string& scores, const std::string& attributes, const std::string& operands,
                      const std::string& kept = "") {
  expect_fused(fuse_attention, kHeads, scores + "\n %y = matmul(%p, v)\n return y = %y",
               kept + "%attention = attention(" + operands + ") {" + attributes +
                   ", layout=\"bhtd\"}\n return y = %attention");
}

TEST(FuseAttention, KnowsTheUsualSpellings) {
  const std::string product = "%s = matmul(q, k) {transpose_b=true}\n";
  expect_attention(product + "%c8 = full() {value=8.0}\n %t = div(%s, %c8)\n %p = softmax(%t)", "scale=0.125",
                   "q, k, v");
  expect_attention(
      product + "%c2 = full() {value=0.5}\n %t = mul(%s, %c2)\n %u = add(%t, m)\n %p = softmax(%u)",
      "scale=0.5, has_mask=true", "q, k, v, m");
  expect_attention(product + "%i = full() {value=-inf}\n %u = where(c, %s, %i)\n %p = softmax(%u) {axis=3}",
                   "scale=1.0, has_mask=true", "q, k, v, c");
  expect_attention(product + "%p = causal_softmax(%s) {scale=0.25}", "causal=true, scale=0.25", "q, k, v");
  const std::string ones = "%o = full() {shape=[5,5], value=1.0}\n", fill = "%i = full() {value=-inf}\n";
  const std::string lower = "%l = tril(%o)\n";
  expect_attention(product + ones + lower + "%b = cast(%l) {dtype=bool}\n" + fill +
                       "%u = where(%b, %s, %i)\n %p = softmax(%u)",
                   "scale=1.0, has_mask=true", "q, k, v, %b", ones + lower + "%b = cast(%l) {dtype=bool}\n");
  expect_attention(product + "%o = full() {shape=[5,5], value=1, dtype=bool}\n" + lower + fill +
                       "%u = where(%l, %s, %i)\n %p = softmax(%u)",
                   "causal=true, scale=1.0", "q, k, v");
}

TEST(FuseAttention, LeavesWhatIsNotAttention) {
  const auto untouched = [](const std::string& body) { expect_untouched(fuse_attention, kHeads, body); };
  const std::string product = "%s = matmul(q, k) {transpose_b=true}\n",
                    end = "%y = matmul(%p, v)\n return y = %y";
  untouched(product + "%p = softmax(%s)\n" + end + "\n return p = %p");  // the weights are an output
  untouched(product + "%p = softmax(%s) {axis=2}\n" + end);              // over the queries
  untouched(product + "%i = full() {value=-1e9}\n %u = where(c, %s, %i)\n %p = softmax(%u)\n" + end);
  untouched("%s = matmul(q, k) {transpose_a=true}\n %y = matmul(q, %s)\n return y = %y");
}

TEST(FuseLinearCrossEntropy, NeverMakesTheLogits) {
  const char* inputs = "x: f32[b,t,8], w: f32[2000,8], target: i64[b,t], flat: i64[b*t]";
  expect_fused(
      fuse_linear_cross_entropy, inputs,
      "%l = linear(x, w)\n %loss = cross_entropy(%l, target) {ignore_index=-1}\n return loss = %loss",
      "%linear_cross_entropy = linear_cross_entropy(x, w, target) {ignore_index=-1}\n"
      "return loss = %linear_cross_entropy");
  expect_fused(fuse_linear_cross_entropy, inputs,
               "%l = matmul(x, w) {transpose_b=true}\n %r = reshape(%l) {shape=[b*t,2000]}\n"
               "%loss = cross_entropy(%r, flat)\n return loss = %loss",
               "%reshape = reshape(x) {shape=[b*t,8]}\n"
               "%linear_cross_entropy = linear_cross_entropy(%reshape, w, flat)\n"
               "return loss = %linear_cross_entropy");
}

TEST(FuseLinearCrossEntropy, LeavesSmallVocabulariesAndLogitsThatAreRead) {
  const char* inputs = "x: f32[b,8], small: f32[10,8], w: f32[2000,8], target: i64[b], bias: f32[2000]";
  const auto untouched = [&](const std::string& body) {
    expect_untouched(fuse_linear_cross_entropy, inputs, body);
  };
  untouched("%l = linear(x, small)\n %loss = cross_entropy(%l, target)\n return loss = %loss");
  untouched(
      "%l = linear(x, w)\n %loss = cross_entropy(%l, target)\n return loss = %loss\n return logits = %l");
  untouched("%l = linear(x, w, bias)\n %loss = cross_entropy(%l, target)\n return loss = %loss");
  untouched(
      "%l = linear(x, w)\n %loss = cross_entropy(%l, target) {reduction=\"none\"}\n return loss = %loss");
}

TEST(Fuse, MakesNothingTheTargetCannotRun) {
  const char* body = "%a = silu(g)\n %y = mul(u, %a)\n return y = %y";
  const auto text = [&](const std::string& size, const Target* target) {
    PassContext context;
    context.target = target;
    return text_after(entry("g: f32[" + size + "], u: f32[" + size + "]", body), fuse_swiglu, context);
  };
  Target target;
  target.can_run = [](const KernelQuery& query) {
    return query.op.name() == "swiglu" ? std::optional<std::string>("not here") : std::nullopt;
  };
  const std::string plain = normal_text(entry("g: f32[4], u: f32[4]", body));
  EXPECT_EQ(text("4", &target), plain);
  EXPECT_NE(text("4", nullptr), plain);
  // With open sizes the target cannot be asked.
  EXPECT_NE(text("n", &target), normal_text(entry("g: f32[n], u: f32[n]", body)));
}

TEST(FuseAddend, TakesWhatIsAddedToAProduct) {
  const char* inputs = "x: f32[2,5,3], w: f32[4,3], b: f32[4], r: f32[2,5,4]";
  expect_fused(fuse_addend, inputs, "%m = linear(x, w, b)\n %y = add(r, %m)\n return y = %y",
               "%linear = linear(x, w, b, r) {has_addend=true}\n return y = %linear");
  expect_fused(fuse_addend, inputs, "%m = linear(x, w)\n %y = add(%m, r)\n return y = %y",
               "%linear = linear(x, w, r) {has_addend=true}\n return y = %linear");
  expect_fused(fuse_addend, "a: f32[7,2,3], b: f32[3,4], r: f32[7,2,4]",
               "%m = matmul(a, b)\n %y = add(%m, r)\n return y = %y",
               "%matmul = matmul(a, b, r)\n return y = %matmul");
}

TEST(FuseAddend, OfTwoProductsTheLaterTakesTheOther) {
  const char* inputs = "a: f32[2,3], b: f32[2,3], c: f32[2,3], w: f32[3,4]";
  expect_fused(
      fuse_addend, inputs,
      "%p = matmul(a, w)\n %q = matmul(b, w)\n %r = matmul(c, w)\n %s = add(%q, %p)\n %t = add(%s, %r)\n"
      " return y = %t",
      "%p = matmul(a, w)\n %matmul = matmul(b, w, %p)\n"
      " %matmul_1 = matmul(c, w, %matmul)\n return y = %matmul_1");
}

// A layer's adapter adds to the output of the layer: the residual is added in the layer.
TEST(FuseAddend, AProductWithAnAddendHandsTheNextOneOn) {
  const char* inputs = "x: f32[2,3], d: f32[2,1], w: f32[4,3], b: f32[4,1], r: f32[2,4], s: f32[2,4]";
  expect_fused(
      fuse_addend, inputs,
      "%p = linear(x, w)\n %q = linear(d, b, %p) {has_addend=true}\n %y = add(r, %q)\n %t = linear(x, w)\n"
      " %z = add(%y, %t)\n return z = %z",
      "%linear = linear(x, w, r) {has_addend=true}\n %q = linear(d, b, %linear) {has_addend=true}\n"
      " %linear_1 = linear(x, w, %q) {has_addend=true}\n return z = %linear_1");
  // Something else reads the layer's output, and the residual comes after it.
  expect_untouched(
      fuse_addend, inputs,
      "%p = linear(x, w)\n %q = linear(d, b, %p) {has_addend=true}\n %y = add(%q, r)\n return y = %y\n"
      " return p = %p");
  expect_untouched(
      fuse_addend, inputs,
      "%p = linear(x, w)\n %n = neg(r)\n %q = linear(d, b, %p) {has_addend=true}\n %m = sum(%n) {axes=(0)}\n"
      " %e = expand(%m) {shape=[2,4]}\n %y = add(%q, %e)\n return y = %y");
}

// The sum of an earlier micro-batch waits. Those of the next one are where their products were.
TEST(FuseAddend, SumsStandWhereProductsStood) {
  const char* inputs = "a: f32[2,3], b: f32[2,3], w: f32[3,4], r: f32[2,4], s: f32[2,4]";
  expect_fused(fuse_addend, inputs,
               "%p = matmul(a, w)\n %q = matmul(b, w)\n %e = exp(s)\n %y = add(r, %p)\n %z = add(%q, s)\n"
               " return y = %y\n return z = %z\n return e = %e",
               "%matmul = matmul(a, w, r)\n %matmul_1 = matmul(b, w, s)\n %e = exp(s)\n"
               " return y = %matmul\n return z = %matmul_1\n return e = %e");
}

// s would have been made with p's product, before q. As a plain addition with w it comes too late.
TEST(FuseAddend, SumsThatStayAdditionsMayComeTooLateForTheNextProduct) {
  const char* inputs = "x: f32[3,3], d: f32[3,3]";
  expect_untouched(
      fuse_addend, inputs,
      "%w = exp(x)\n %p = matmul(d, x)\n %q = matmul(x, d)\n %s = add(%w, %p)\n %t = add(%s, %q)\n"
      " return t = %t");
}

TEST(FuseAddend, LeavesOthersAlone) {
  const char* inputs = "x: f32[2,3], w: f32[4,3], r: f32[2,4], row: f32[4], wide: f32[5,2,4]";
  const auto untouched = [&](const std::string& body) { expect_untouched(fuse_addend, inputs, body); };
  untouched("%m = linear(x, w)\n %y = add(%m, r)\n return y = %y\n return m = %m");
  untouched("%m = linear(x, w) {activation=\"relu\"}\n %y = add(%m, r)\n return y = %y");
  untouched("%m = linear(x, w)\n %y = add(%m, row)\n return y = %y");
  untouched("%m = linear(x, w)\n %y = add(%m, wide)\n return y = %y");
  untouched("%m = linear(x, w)\n %y = add(%m, %m)\n return y = %y");
  untouched("%m = linear(x, w, r) {has_addend=true}\n %y = add(%m, r)\n return y = %y");
  // The addend is made after the product.
  untouched("%m = linear(x, w)\n %n = sum(wide) {axes=(0)}\n %y = add(%m, %n)\n return y = %y");
  // The sum is better fused with its readers or with its inputs.
  untouched("%m = linear(x, w)\n %s = add(%m, r)\n %y = tanh(%s)\n return y = %y");
  untouched("%t = tanh(r)\n %m = linear(x, w)\n %y = add(%m, %t)\n return y = %y");
}

TEST(FuseAddend, ASumOfRanksTakesWhatIsTheSameOnAllOfThem) {
  const char* inputs = "x: f32[2,3], r: f32[2,3]";
  const auto sum = [](const char* attributes) {
    return std::string("%s = all_reduce(x) {") + attributes + "}\n %y = add(r, %s)\n return y = %y";
  };
  expect_fused(fuse_addend, inputs, sum("axis=\"tensor\""),
               "%all_reduce = all_reduce(x, r) {axis=\"tensor\", has_addend=true}\n return y = %all_reduce");
  // Along other axes ranks have different data. A value added to a mean or a maximum is added after it.
  expect_untouched(fuse_addend, inputs, sum("axis=\"data\""));
  expect_untouched(fuse_addend, inputs, sum("axis=\"tensor\", reduction=\"max\""));
  expect_untouched(
      fuse_addend, inputs,
      "%a = all_reduce(x, r) {axis=\"tensor\"}\n %y = add(r, %a)\n return y = %y\n return b = %a:1");
}

TEST(FuseAddend, AsksTheTarget) {
  const std::string body = "%m = matmul(x, w)\n %y = add(%m, r)\n return y = %y";
  Target target;
  target.can_run = [](const KernelQuery& query) {
    return query.inputs.size() > 2 ? std::optional<std::string>("no addends here") : std::nullopt;
  };
  PassContext context;
  context.target = &target;
  const std::string text = entry("x: f32[2,3], w: f32[3,4], r: f32[2,4]", body);
  EXPECT_EQ(text_after(text, fuse_addend, context), normal_text(text));
}

constexpr const char* kGradientInputs =
    "dy: bf16[8192,2000], x: bf16[8192,30], so_far: bf16[2000,30], few: bf16[64,2000], y: bf16[64,30]";

std::string with_bias_gradients(const std::string& body, bool pays = true) {
  Target target = large_gpu();
  if (!pays) target.is_native = never_native;
  return text_after(entry(kGradientInputs, body), fuse_bias_gradient, {.target = &target});
}

TEST(FuseBiasGradient, TakesTheSumOfTheSameRowsWhereThatPays) {
  const std::string body =
      "%w = matmul(dy, x) {transpose_a=true}\n %b = sum(dy) {axes=(0)}\n return w = %w\n return b = %b";
  EXPECT_EQ(with_bias_gradients(body),
            normal_text(entry(kGradientInputs,
                              "%matmul = matmul(dy, x) {transpose_a=true, epilogue=\"bias_grad\"}\n"
                              " return w = %matmul\n return b = %matmul:1")));
  EXPECT_EQ(with_bias_gradients(body, false), normal_text(entry(kGradientInputs, body)));
}

TEST(FuseBiasGradient, LeavesOthersAlone) {
  const auto untouched = [](const std::string& body) {
    EXPECT_EQ(with_bias_gradients(body), normal_text(entry(kGradientInputs, body)));
  };
  const std::string both = "\n return w = %w\n return b = %b",
                    product = "%w = matmul(dy, x) {transpose_a=true}\n ";
  untouched("%w = matmul(few, y) {transpose_a=true}\n %b = sum(few) {axes=(0)}" + both);
  untouched(product + "%b = sum(dy) {axes=(1)}" + both);
  untouched(product + "%b = sum(dy) {axes=(0), keep_dims=true}" + both);
  untouched(product + "%b = sum(x) {axes=(0)}" + both);
  untouched(product + "%b = max(dy) {axes=(0)}" + both);
  untouched("%w = matmul(dy, x, so_far) {transpose_a=true}\n %b = sum(dy) {axes=(0)}" + both);
  // The sum is read before the product runs.
  untouched("%s = sum(dy) {axes=(0)}\n %b = neg(%s)\n " + product + both);
}

TEST(FuseNormResidual, TakesTheGradientThatGoesPast) {
  const char* inputs = "x: bf16[2,3], dy: bf16[2,3], w: f32[3], past: bf16[2,3]";
  expect_fused(fuse_norm_residual, inputs,
               "%g = rms_norm_grad(x, dy, w) {has_weight=true, want_weight=true}\n %s = add(past, %g)\n"
               " return dx = %s\n return dw = %g:1",
               "%rms_norm_grad = rms_norm_grad(x, dy, w, past) {has_weight=true, want_weight=true, "
               "has_residual=true}\n"
               " return dx = %rms_norm_grad\n return dw = %rms_norm_grad:1");
  expect_fused(
      fuse_norm_residual, inputs, "%g = layer_norm_grad(x, dy)\n %s = add(%g, past)\n return dx = %s",
      "%layer_norm_grad = layer_norm_grad(x, dy, past) {has_residual=true}\n return dx = %layer_norm_grad");
}

TEST(FuseNormResidual, NeedsTheOtherGradientFirstAndDxForItself) {
  const char* inputs = "x: f32[2,3], dy: f32[2,3], row: f32[3], past: f32[2,3]";
  expect_untouched(fuse_norm_residual, inputs,
                   "%g = rms_norm_grad(x, dy)\n %p = neg(past)\n %s = add(%p, %g)\n return dx = %s");
  expect_untouched(fuse_norm_residual, inputs,
                   "%g = rms_norm_grad(x, dy)\n %s = add(past, %g)\n return dx = %s\n return g = %g");
  expect_untouched(fuse_norm_residual, inputs,
                   "%g = rms_norm_grad(x, dy)\n %s = add(%g, %g)\n return dx = %s");
  expect_untouched(fuse_norm_residual, inputs,
                   "%g = rms_norm_grad(x, dy)\n %s = add(dy, %g)\n return dx = %s");
  expect_untouched(fuse_norm_residual, inputs,
                   "%g = rms_norm_grad(x, dy)\n %s = add(row, %g)\n return dx = %s");
}

}  // namespace
}  // namespace genesis::passes
