// Tests that every pass keeps results: models of the zoo, and graphs with every pattern, run as written, with the
// whole pipeline, and with each pass disabled in turn.
#include <cmath>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/precision/cast_precision.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

struct Case {
  std::string name;
  std::shared_ptr<Model> model;
  std::string entry;
  NamedTensors inputs;
};

Tensor random_reals(const TensorType& type, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(type.numel()));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / float(1 << 23) - 1.0f;
  }
  return Tensor::of<float>(type.shape.sizes(), values);
}

Tensor random_ids(const std::vector<int64_t>& sizes, int64_t below, uint32_t seed) {
  std::vector<int64_t> values(static_cast<size_t>(Shape::of(sizes).numel().value()));
  for (int64_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<int64_t>(seed >> 8) % below;
  }
  return Tensor::of<int64_t>(sizes, values);
}

// Attention, norms, SwiGLU, biases and activations written as elementary ops, with much to simplify and to fold.
constexpr const char* kSpelledOut = R"(
state @wq: f32[16,16] parameter trainable
state @wk: f32[16,16] parameter trainable
state @wv: f32[16,16] parameter trainable
state @wg: f32[32,16] parameter trainable
state @bg: f32[32] parameter trainable
state @wu: f32[32,16] parameter trainable
state @wd: f32[16,32] parameter trainable
state @norm: f32[16] parameter trainable
state @bias: f32[16] parameter trainable
state @head: f32[1100,16] parameter trainable
tensor #shift: f32[16] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
entry loss(x: f32[b,t,16], target: i64[b,t]) {
  %mean = mean(x) {axes=(-1), keep_dims=true}
  %centered = sub(x, %mean)
  %squares = mul(%centered, %centered)
  %variance = mean(%squares) {axes=(-1), keep_dims=true}
  %eps = full() {value=1e-05}
  %safe = add(%variance, %eps)
  %scale = rsqrt(%safe)
  %normal = mul(%centered, %scale)
  %weighted = mul(%normal, @norm)
  %h = add(%weighted, @bias)
  %tq = permute(@wq) {axes=(1, 0)}
  %tk = permute(@wk) {axes=(1, 0)}
  %tv = permute(@wv) {axes=(1, 0)}
  %q = matmul(%h, %tq)
  %k = matmul(%h, %tk)
  %v = matmul(%h, %tv)
  %q4 = reshape(%q) {shape=[b,t,2,8]}
  %k4 = reshape(%k) {shape=[b,t,2,8]}
  %v4 = reshape(%v) {shape=[b,t,2,8]}
  %qh = permute(%q4) {axes=(0, 2, 1, 3)}
  %kh = permute(%k4) {axes=(0, 2, 1, 3)}
  %vh = permute(%v4) {axes=(0, 2, 1, 3)}
  %kt = permute(%kh) {axes=(0, 1, 3, 2)}
  %scores = matmul(%qh, %kt)
  %four = full() {value=4.0}
  %scaled = div(%scores, %four)
  %ones = full() {shape=[t,t], value=1, dtype=bool}
  %lower = tril(%ones)
  %never = full() {value=-inf}
  %masked = where(%lower, %scaled, %never)
  %weights = softmax(%masked)
  %seen = matmul(%weights, %vh)
  %back = permute(%seen) {axes=(0, 2, 1, 3)}
  %joined = reshape(%back) {shape=[b,t,16]}
  %one = full() {value=1.0}
  %same = mul(%joined, %one)
  %twice = neg(%same)
  %again = neg(%twice)
  %r = add(%again, x)
  %rs = square(%r)
  %rm = mean(%rs) {axes=(-1), keep_dims=true}
  %re = add(%rm, %eps)
  %rr = sqrt(%re)
  %rn = div(%r, %rr)
  %rw = mul(@norm, %rn)
  %gate = matmul(%rw, @wg) {transpose_b=true}
  %gated = add(%gate, @bg)
  %sigmoid = sigmoid(%gated)
  %act = mul(%gated, %sigmoid)
  %up = matmul(%rw, @wu) {transpose_b=true}
  %mix = mul(%act, %up)
  %down = matmul(%mix, @wd) {transpose_b=true}
  %eg = exp(#shift)
  %eh = mul(%eg, #shift)
  %moved = add(%down, %eh)
  %logits = matmul(%moved, @head) {transpose_b=true}
  %flat = reshape(%logits) {shape=[b*t,1100]}
  %flat_target = reshape(target) {shape=[b*t]}
  %loss = cross_entropy(%flat, %flat_target)
  return loss = %loss
  return h = %moved
}
)";

std::shared_ptr<Model> spelled_out() {
  std::shared_ptr<Model> model = parse_text(kSpelledOut);
  for (size_t i = 0; i < model->states().size(); ++i)
    model->set_initial(static_cast<int32_t>(i),
                       random_reals(model->states()[i].type, static_cast<uint32_t>(i)));
  return model;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, std::shared_ptr<Model> model, std::string entry,
                       NamedTensors inputs) {
    add_train_step(*model, parse_train_options("adamw,lr=1e-3,clip=1"));
    all.push_back({name + "." + entry, model, entry, inputs});
    all.push_back({name + ".train_step", model, "train_step", inputs});
  };
  for (const char* name : {"qwen2", "qwen3"})
    add(name,
        models::make_model(name, {{"hidden_size", "32"},
                                  {"intermediate_size", "48"},
                                  {"num_hidden_layers", "2"},
                                  {"num_attention_heads", "4"},
                                  {"num_key_value_heads", "2"},
                                  {"vocab_size", "64"},
                                  {"max_position_embeddings", "16"}}),
        "loss", {{"tokens", random_ids({2, 8}, 64, 1)}, {"targets", random_ids({2, 8}, 64, 2)}});
  add("gpt2",
      models::make_model("gpt2", {{"n_embd", "32"}, {"n_layer", "2"}, {"n_head", "4"}, {"vocab_size", "64"}}),
      "loss", {{"tokens", random_ids({2, 8}, 64, 1)}, {"targets", random_ids({2, 8}, 64, 2)}});
  add("spelled_out", spelled_out(), "loss",
      {{"x", random_reals({DType::f32, {2, 6, 16}}, 3)}, {"target", random_ids({2, 6}, 1100, 4)}});
  return all;
}

// Returns the outputs and, after training steps, all states.
NamedTensors results(const Case& c, const SessionOptions& options) {
  Session session(c.model, options);
  NamedTensors all = session.run(c.entry, c.inputs);
  if (c.entry == "train_step")
    for (int i = 0; i < 2; ++i) all = session.run(c.entry, c.inputs);
  for (const State& state : c.model->states())
    if (state.role == StateRole::kParameter) all.emplace("state " + state.name, session.state(state.name));
  return all;
}

void expect_close(const NamedTensors& got, const NamedTensors& expected, const std::string& what) {
  for (const auto& [name, tensor] : expected) {
    const std::vector<double> a = got.at(name).to_doubles(), b = tensor.to_doubles();
    double largest = 1e-3, error = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      error = std::max(error, std::abs(a[i] - b[i]));
    }
    // Adam divides by the root of a second moment near zero, which magnifies rounding of the gradients.
    const bool magnified = name.starts_with("state ");
    EXPECT_LE(error, (magnified ? 2e-3 : 2e-5) * largest) << what << ": '" << name << "'";
  }
}

TEST(Passes, KeepResultsTogether) {
  for (const Case& c : cases())
    expect_close(results(c, {}), results(c, {.optimize = false}), c.name + " optimized");
}

TEST(Passes, KeepResultsWithEachSwitchedOff) {
  for (const Case& c : cases()) {
    const NamedTensors plain = results(c, {.optimize = false});
    for (const Pass& pass : all_passes())
      expect_close(results(c, {.disabled = {std::string(pass.name)}}), plain,
                   c.name + " without " + std::string(pass.name));
  }
}

// These rewrites promise to keep every bit.
TEST(Passes, ExactOnesKeepEveryBit) {
  const std::set<std::string> exact = {"simplify",       "fold_constants",  "cse", "dce", "merge_linear",
                                       "pack_attention", "recompute_outputs"};
  std::set<std::string> others;
  for (const Pass& pass : all_passes())
    if (!exact.contains(std::string(pass.name))) others.insert(std::string(pass.name));
  for (const Case& c : cases()) {
    if (c.name.starts_with("spelled_out"))
      continue;  // absorbs transposes into products, which may sum differently
    const NamedTensors plain = results(c, {.optimize = false}), got = results(c, {.disabled = others});
    for (const auto& [name, tensor] : plain)
      EXPECT_EQ(got.at(name).to_doubles(), tensor.to_doubles()) << c.name << name;
  }
}

TEST(Passes, PrepareAModelForTraining) {
  const Case reference = cases().back();
  std::shared_ptr<Model> model = spelled_out();
  model->replace_entry(run_passes(model->entry("loss"), preparation_pipeline(), {}));
  std::map<std::string, int> count;
  for (const Node& node : model->entry("loss").nodes()) ++count[std::string(node.op->name())];
  EXPECT_EQ(count["attention"], 1);
  EXPECT_EQ(count["layer_norm"], 1);
  EXPECT_EQ(count["rms_norm"], 1);
  EXPECT_EQ(count["swiglu"], 1);
  EXPECT_EQ(count["linear_cross_entropy"], 1);
  EXPECT_EQ(count["softmax"] + count["sigmoid"] + count["rsqrt"] + count["permute"] + count["cross_entropy"],
            0);
  add_train_step(*model, parse_train_options("adamw,lr=1e-3,clip=1"));
  expect_close(results({"prepared", model, "train_step", reference.inputs}, {}),
               results(reference, {.optimize = false}), "prepared");
}

// bf16 keeps 8 bits of every number, so a loss of four moves at most in the second decimal.
TEST(CastPrecision, KeepsTheLossOfAModel) {
  for (const char* name : {"qwen2", "qwen3", "gpt2"}) {
    std::shared_ptr<Model> model = models::make_model(name, {{"vocab_size", "64"}});
    const NamedTensors inputs = {{"tokens", random_ids({2, 8}, 64, 1)},
                                 {"targets", random_ids({2, 8}, 64, 2)}};
    const double exact = results({name, model, "loss", inputs}, {}).at("loss").to_doubles()[0];
    std::shared_ptr<Model> low = cast_precision(*model, DType::bf16);
    EXPECT_NEAR(results({name, low, "loss", inputs}, {}).at("loss").to_doubles()[0], exact, 0.02) << name;
  }
}

TEST(Passes, AreTheSameTwice) {
  for (const Case& c : cases()) {
    std::string texts[2];
    for (std::string& text : texts) {
      const Model copy = *c.model;
      text =
          to_text(run_passes(copy.entry(c.entry), pipeline_for(copy.entry(c.entry)), {}), {.origins = true});
    }
    EXPECT_EQ(texts[0], texts[1]) << c.name;
  }
}

}  // namespace
}  // namespace genesis::passes
