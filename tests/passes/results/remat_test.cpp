// Tests rematerialization: under a budget the arena shrinks, every bit stays, and only cheap work is recomputed.
#include "passes/memory/passes.h"

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/memory/make_plan.h"
#include "passes/pipelines.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

using namespace testing;

struct Case {
  std::string name;
  models::Settings settings;
  std::string train;
  NamedTensors inputs;
};

Tensor ids(const std::vector<int64_t>& sizes, int64_t below, uint32_t seed) {
  std::vector<int64_t> values(static_cast<size_t>(Shape::of(sizes).numel().value()));
  for (int64_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<int64_t>(seed >> 8) % below;
  }
  return Tensor::of<int64_t>(sizes, values);
}

NamedTensors text(int64_t rows, int64_t length, int64_t vocabulary) {
  return {{"tokens", ids({rows, length}, vocabulary, 1)}, {"targets", ids({rows, length}, vocabulary, 2)}};
}

NamedTensors images(int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows * 64));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return {{"x", Tensor::of<float>({rows, 64}, x)}, {"target", ids({rows}, 10, 3)}};
}

// Activations are larger than parameters, as they are when memory is short. Dropout is drawn again too.
std::vector<Case> cases() {
  const models::Settings mlp{{"in_features", "64"}, {"hidden_features", "32"}, {"num_hidden_layers", "6"}, {"dropout", "0.2"}};
  const models::Settings gpt2{{"vocab_size", "64"}, {"n_embd", "32"}, {"n_layer", "3"}, {"n_positions", "64"}, {"dropout", "0.1"}};
  const models::Settings qwen2{{"vocab_size", "64"},        {"hidden_size", "32"},
                               {"intermediate_size", "96"}, {"num_hidden_layers", "4"},
                               {"num_attention_heads", "2"}, {"num_key_value_heads", "1"}, {"max_position_embeddings", "64"}};
  return {{"mlp", mlp, "adamw,lr=1e-2", images(512)},
          {"gpt2", gpt2, "adamw,clip=1", text(16, 64, 64)},
          {"qwen2", qwen2, "sgd,momentum=0.9", text(16, 64, 64)},
          {"qwen2", qwen2, "adamw,clip=1,precision=bf16,accumulate=2", text(32, 64, 64)}};
}

std::shared_ptr<Model> trained(const Case& c) {
  std::shared_ptr<Model> model = models::make_model(c.name, c.settings, 7);
  model->replace_entry(run_passes(std::as_const(*model).entry("loss"), preparation_pipeline(), {}));
  add_train_step(*model, parse_train_options(c.train));
  return model;
}

struct Outcome {
  int64_t arena = 0;
  size_t steps = 0;
  std::vector<std::vector<double>> values;  // losses and norms by step, then every state
};

Outcome run(const Case& c, std::optional<int64_t> budget) {
  Session session(trained(c), {.memory_budget = budget});
  Outcome outcome;
  for (int step = 0; step < 2; ++step)
    for (const auto& [name, tensor] : session.run("train_step", c.inputs)) outcome.values.push_back(tensor.to_doubles());
  for (const State& state : session.model().states()) outcome.values.push_back(session.state(state.name).to_doubles());
  const Plan& plan = session.plan("train_step", c.inputs);
  outcome.arena = plan.arena_bytes;
  outcome.steps = plan.steps.size();
  return outcome;
}

TEST(Remat, MeetsTheBudgetWithTheSameBits) {
  for (const Case& c : cases()) {
    const Outcome whole = run(c, std::nullopt), least = run(c, 0);
    EXPECT_LT(least.arena, whole.arena * 7 / 10) << c.name << " " << c.train;
    EXPECT_EQ(least.values, whole.values) << c.name << " " << c.train;
    for (const double part : {0.7, 0.3}) {
      const auto budget = least.arena + static_cast<int64_t>(part * static_cast<double>(whole.arena - least.arena));
      const Outcome some = run(c, budget);
      EXPECT_LE(some.arena, budget) << c.name << " " << part;
      EXPECT_EQ(some.values, whole.values) << c.name << " " << part;
      EXPECT_GT(some.steps, whole.steps) << c.name << " " << part;
    }
    const Outcome enough = run(c, whole.arena);
    EXPECT_EQ(enough.steps, whole.steps) << "nothing is repeated where it fits anyway";
  }
}

// x is small; h and g are large, and the backward pass reads them again. exp is cheap, and the product is not.
constexpr const char* kText = R"(
state @w: f32[256,256] parameter trainable
entry loss(x: f32[4096,256]) {
  %h = linear(x, @w)
  %g = exp(%h)
  %k = exp(%g)
  %p = linear(%k, @w)
  %q = exp(%p)
  %loss = mean(%q)
  return loss = %loss
}
)";

int64_t arena_of(const Graph& graph) { return make_plan(graph, Target{}).arena_bytes; }

std::vector<std::string> repeated(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes())
    if (node.name.find(".again") != std::string::npos) names.push_back(node.name);
  return names;
}

TEST(Remat, RepeatsWhatIsCheapFirst) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("sgd"));
  const Graph& graph = model->entry("train_step");
  const int64_t whole = arena_of(graph);
  const int64_t buffer = 4096 * 256 * 4;
  PassContext context;
  context.memory_budget = whole - buffer;
  const Graph some = rematerialize(graph, context);
  verify(some);
  EXPECT_LE(arena_of(some), whole - buffer);
  for (const std::string& name : repeated(some)) EXPECT_TRUE(name.starts_with("g.") || name.starts_with("k.")) << name;
  EXPECT_FALSE(repeated(some).empty());
  context.memory_budget = 0;
  const Graph least = rematerialize(graph, context);
  EXPECT_LE(arena_of(least), arena_of(some));
  EXPECT_EQ(to_text(least), to_text(rematerialize(graph, context))) << "the same every time";
}

TEST(Remat, KeepsNamesOfTheAuthorsNodes) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("sgd"));
  PassContext context;
  context.memory_budget = 0;
  const Graph least = rematerialize(model->entry("train_step"), context);
  for (const Node& node : least.nodes())
    if (node.name == "g.again") {
      EXPECT_EQ(node.authored_name(), "g");
    }
}

TEST(Remat, ABudgetTooSmallSaysWhatCanBeReached) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("sgd"));
  PassContext context;
  context.memory_budget = 0;
  const int64_t least = arena_of(rematerialize(model->entry("train_step"), context));
  context.memory_budget = least / 2;
  expect_error([&] { rematerialize(model->entry("train_step"), context); },
               {std::to_string(least / 2) + " bytes) cannot be met", std::to_string(least) + " bytes)", "accumulate"});
}

}  // namespace
}  // namespace genesis::passes
