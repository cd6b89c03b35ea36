// Tests training runs in bf16 and f16: loss curves close to f32, every bit of f32 if everything is kept in f32, and
// dynamic loss scaling through overflows.
#include <algorithm>
#include <cmath>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

// Returns a text that repeats itself, so that there is something to learn.
NamedTensors batch(int64_t rows, int64_t length, int64_t vocabulary, int64_t step) {
  std::vector<int64_t> tokens, targets;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i <= length; ++i) {
      const int64_t at = step * 31 + row * 17 + i, token = (at % 23 * 41 + at % 3) % vocabulary;
      if (i < length) tokens.push_back(token);
      if (i > 0) targets.push_back(token);
    }
  return {{"tokens", Tensor::of<int64_t>({rows, length}, tokens)},
          {"targets", Tensor::of<int64_t>({rows, length}, targets)}};
}

struct ModelCase {
  std::string name;
  models::Settings settings;
  int64_t vocabulary = 64;
};

const ModelCase kQwen2{"qwen2",
                       {{"vocab_size", "64"},
                        {"hidden_size", "64"},
                        {"intermediate_size", "128"},
                        {"num_hidden_layers", "2"},
                        {"max_position_embeddings", "64"}}};
// Has enough classes for the fused loss, whose gradients are computed in the forward pass.
const ModelCase kQwen2Fused{"qwen2",
                            {{"vocab_size", "1200"},
                             {"hidden_size", "64"},
                             {"intermediate_size", "128"},
                             {"num_hidden_layers", "1"},
                             {"max_position_embeddings", "64"}},
                            1200};
const ModelCase kGpt2{
    "gpt2",
    {{"vocab_size", "64"}, {"n_embd", "64"}, {"n_layer", "2"}, {"n_positions", "64"}, {"dropout", "0.1"}}};

std::shared_ptr<Model> trained(const ModelCase& c, const std::string& options) {
  std::shared_ptr<Model> model = models::make_model(c.name, c.settings, 7);
  model->replace_entry(run_passes(std::as_const(*model).entry("loss"), preparation_pipeline(), {}));
  add_train_step(*model, parse_train_options(options));
  return model;
}

std::vector<double> curve(const ModelCase& c, const std::string& options, int64_t steps) {
  Session session(trained(c, options));
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step)
    losses.push_back(session.run("train_step", batch(4, 32, c.vocabulary, step)).at("loss").to_doubles()[0]);
  return losses;
}

void expect_within_one_percent(const ModelCase& c, const std::string& precision, int64_t steps) {
  const std::string options = "adamw,lr=2e-3,clip=1.0,precision=";
  const std::vector<double> exact = curve(c, options + "f32", steps),
                            low = curve(c, options + precision, steps);
  EXPECT_LT(exact.back(), exact.front() - 0.5) << "the curve goes down";
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(low[i], exact[i], 0.01 * exact[i]) << c.name << " " << precision << " step " << i;
}

TEST(MixedPrecisionResults, Bf16StaysWithinOnePercentOfF32) {
  expect_within_one_percent(kQwen2, "bf16", 50);
  expect_within_one_percent(kQwen2Fused, "bf16", 20);
  expect_within_one_percent(kGpt2, "bf16", 20);
}

TEST(MixedPrecisionResults, F16StaysWithinOnePercentOfF32) {
  expect_within_one_percent(kQwen2, "f16", 50);
  expect_within_one_percent(kQwen2Fused, "f16", 20);
}

// The graph is the same, so the bits are too. f16 keeps its loss scale, which is a power of two.
TEST(MixedPrecisionResults, KeepingEverythingInF32KeepsEveryBit) {
  for (const ModelCase& c : {kQwen2, kQwen2Fused, kGpt2}) {
    EXPECT_EQ(to_text(trained(c, "adamw,clip=1")->entry("train_step")),
              to_text(trained(c, "adamw,clip=1,precision=bf16,keep_f32=*")->entry("train_step")));
    EXPECT_EQ(curve(c, "adamw,clip=1", 3), curve(c, "adamw,clip=1,precision=bf16,keep_f32=*", 3));
  }
  EXPECT_EQ(curve(kQwen2, "adamw,clip=1", 3), curve(kQwen2, "adamw,clip=1,precision=f16,keep_f32=*", 3));
}

int count_of(const Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const Node& node) { return node.op->name() == op; }));
}

// One product for q, k and v and one for gate and up round differently from three and two products, and nothing else
// changes.
TEST(MixedPrecisionResults, MergedProjectionsGiveTheSameCurve) {
  for (const char* precision : {"bf16", "f16"}) {
    const std::string options = std::string("adamw,lr=2e-3,clip=1.0,precision=") + precision;
    const std::vector<double> merged = curve(kQwen2, options, 10),
                              apart = curve(kQwen2, options + ",merge_projections=false", 10);
    for (size_t i = 0; i < apart.size(); ++i)
      EXPECT_NEAR(merged[i], apart[i], 2e-3 * apart[i]) << precision << " step " << i;
  }
}

TEST(MixedPrecisionResults, LayersThatAreKeptAreNotMerged) {
  const auto products = [](const std::string& more) {
    return count_of(trained(kQwen2, "adamw,precision=bf16" + more)->entry("train_step"), "linear");
  };
  const int apart = products(",merge_projections=false");
  EXPECT_EQ(products(""), apart - 2 * 3);  // in each of two layers
  EXPECT_EQ(products(",keep_f32=model.layers.0.self_attn.k_proj*"), apart - 2 - 1 - 1);
  EXPECT_EQ(products(",keep_f32=*.up_proj*"), apart - 2 * 2);
  EXPECT_EQ(products(",accumulate=2"), 2 * (apart - 2 * 3));
}

TEST(MixedPrecisionResults, KeepingALayerIsCloserToF32) {
  const double exact = curve(kQwen2, "sgd,lr=0.1", 1)[0];
  const double low = curve(kQwen2, "sgd,lr=0.1,precision=bf16", 1)[0];
  const double kept =
      curve(kQwen2, "sgd,lr=0.1,precision=bf16,keep_f32=model.layers*;lm_head*;*norm*;*cross*", 1)[0];
  EXPECT_NE(low, exact);
  EXPECT_LT(std::abs(kept - exact), std::abs(low - exact));
}

// loss = mean((x w + b - y)^2), with a buffer that follows the predictions.
constexpr const char* kRegression = R"(
state @w: f32[1,2] parameter trainable = (0.5, -1.0)
state @b: f32[1] parameter trainable = (0.25)
state @seen: f32[1] buffer
entry loss(x: f32[4,2], y: f32[4,1]) {
  %p = linear(x, @w, @b)
  %error = sub(%p, y)
  %squares = square(%error)
  %loss = mean(%squares)
  %mean = mean(%p) {axes=(0)}
  %next = maximum(@seen, %mean)
  return loss = %loss
  update @seen = %next
}
)";

NamedTensors regression(float size) {
  return {{"x", Tensor::of<float>({4, 2}, {size, 2, -1, 0.5, 3, -2, 0.25, 1})},
          {"y", Tensor::of<float>({4, 1}, {1, -1, 0.5, 2})}};
}

std::vector<double> all_states(const Session& session) {
  std::vector<double> values;
  for (const State& state : session.model().states()) {
    if (state.name == "optimizer.loss_scale" || state.name == "optimizer.good_steps" ||
        state.name == "optimizer.skipped_steps")
      continue;
    for (double v : session.state(state.name).to_doubles()) values.push_back(v);
  }
  return values;
}

double scalar(const NamedTensors& outputs, const std::string& name) {
  return outputs.at(name).to_doubles()[0];
}

TEST(LossScale, AnOverflowIsSkippedHalvesTheScaleAndTrainingGoesOn) {
  for (const char* optimizer :
       {"adamw", "adam", "sgd,momentum=0.9", "sgd", "lion", "adamw,clip=1", "adamw,clip_value=0.1,clip=1"}) {
    for (bool in_place : {true, false}) {
      std::shared_ptr<Model> model = parse_text(kRegression);
      add_train_step(*model,
                     parse_train_options(std::string(optimizer) + ",lr=0.01,precision=f16,loss_scale=256"));
      Session session(
          model, {.disabled = in_place ? std::set<std::string>{} : std::set<std::string>{"in_place"}});
      session.run("train_step", regression(1));
      const std::vector<double> before = all_states(session);
      // 3e4 fits in f16; multiplied by the error and the scale it does not.
      NamedTensors out = session.run("train_step", regression(3e4f));
      EXPECT_EQ(scalar(out, "loss_scale"), 256) << optimizer;
      EXPECT_EQ(scalar(out, "skipped_steps"), 1) << optimizer;
      EXPECT_FALSE(std::isfinite(scalar(out, "grad_norm")) &&
                   std::string(optimizer).find("clip_value") == std::string::npos)
          << optimizer;
      EXPECT_EQ(all_states(session), before) << optimizer << ": a skipped step changes nothing";
      EXPECT_EQ(session.state("optimizer.loss_scale").to_doubles()[0], 128) << optimizer;
      out = session.run("train_step", regression(3e4f));
      EXPECT_EQ(scalar(out, "skipped_steps"), 2) << optimizer;
      out = session.run("train_step", regression(1));
      EXPECT_EQ(scalar(out, "loss_scale"), 64) << optimizer;
      EXPECT_EQ(scalar(out, "skipped_steps"), 0) << optimizer;
      EXPECT_TRUE(std::isfinite(scalar(out, "grad_norm"))) << optimizer;
      EXPECT_NE(all_states(session), before) << optimizer;
      EXPECT_EQ(session.state("optimizer.step").to_doubles()[0], 2) << "skipped steps do not count";
    }
  }
}

TEST(LossScale, DoublesAfterGoodSteps) {
  std::shared_ptr<Model> model = parse_text(kRegression);
  add_train_step(*model, parse_train_options("sgd,lr=0.001,precision=f16,loss_scale=8,scale_interval=3"));
  Session session(model);
  std::vector<double> scales;
  for (float size : {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 6e4f, 1.0f, 1.0f, 1.0f, 1.0f})
    scales.push_back(scalar(session.run("train_step", regression(size)), "loss_scale"));
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 8, 16, 16, 16, 8, 8, 8, 16}));
}

// A loss scale preserves gradients that are too small for f16.
TEST(LossScale, SavesSmallGradients) {
  const auto moved = [](const std::string& scale) {
    std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[1,2] parameter trainable = (1.0, 1.0)
entry loss(x: f32[4,2]) {
  %p = linear(x, @w)
  %small = full() {value=1e-09}
  %mean = mean(%p)
  %loss = mul(%mean, %small)
  return loss = %loss
}
)");
    add_train_step(*model, parse_train_options("sgd,lr=1e8,precision=f16,loss_scale=" + scale));
    Session session(model);
    session.run("train_step", {{"x", Tensor::of<float>({4, 2}, {1, 2, 1, 2, 1, 2, 1, 2})}});
    return session.state("w").to_doubles();
  };
  EXPECT_EQ(moved("1"), (std::vector<double>{1, 1}));
  const std::vector<double> w = moved("65536");
  EXPECT_NEAR(w[0], 0.9, 2e-3);
  EXPECT_NEAR(w[1], 0.8, 4e-3);
}

}  // namespace
}  // namespace genesis::passes
