// Tests models whose tokens are sharded between layers along "tensor", against one rank that has all tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "schema/ops/collective/collective.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::train;
using testing::train_on;
using testing::training;

constexpr const char* kAdamw = "adamw,lr=1e-3,eps=1e-4,clip=1.0";
// A budget that is always met: the compiler may trade time for memory, but recomputes nothing.
constexpr int64_t kBudget = int64_t{1} << 40;
const Bindings kSizes = {{"batch", 8}, {"seq", 12}};
const std::vector<std::string> kWhole = {"shard_sequence"};  // disabled: all tokens are on all ranks

CompiledEntry compiled(const Model& model, const std::string& mesh, const Bindings& sizes,
                       const std::vector<std::string>& disabled = {},
                       const std::string& entry = "train_step") {
  SessionOptions options;
  options.mesh = Mesh::parse(mesh);
  options.disabled = {disabled.begin(), disabled.end()};
  options.memory_budget = kBudget;
  return compile_entry(model, entry, sizes, target_of("cpu"), options);
}

// Counts exchanges along "tensor" of tensors with the tokens' hidden states, which have 32 elements each.
std::map<std::string, int> exchanges(const Plan& plan, const std::string& axis = "tensor") {
  std::map<std::string, int> counts;
  for (const Step& step : plan.steps)
    if (axis_of(*step.op, step.attributes) == axis) {
      const Shape& shape = step.input_types[0].shape;
      if (shape.rank() > 1 && shape[shape.rank() - 1] == Dim(32)) ++counts[std::string(step.op->name())];
    }
  return counts;
}
using Counts = std::map<std::string, int>;

// Checks that training on the mesh matches `alone` to 1e-5, with identical bits on all ranks and in a second run.
void expect_trains_in_parts(const Curve& alone, const std::shared_ptr<const Model>& model,
                            const std::string& mesh) {
  const SessionOptions options{.memory_budget = kBudget};
  const std::vector<Curve> ranks = train_on(mesh, model, options), again = train_on(mesh, model, options);
  expect_close(ranks[0], alone, 1e-5);
  for (const Curve& rank : ranks) testing::expect_same_bits(rank, ranks[0]);
  testing::expect_same_bits(again[0], ranks[0]);
}

struct Case {
  const char* name;
  const char* mesh;
  int64_t vocabulary = 64;
  const char* more = "";  // more options of training
};

class SequenceParallel : public ::testing::TestWithParam<Case> {};

TEST_P(SequenceParallel, TrainsAsOneRankDoes) {
  const Case& one = GetParam();
  const auto model = training(one.name, std::string(kAdamw) + one.more, one.vocabulary);
  const int64_t micro = std::string_view(one.more).find("accumulate") != std::string_view::npos ? 2 : 8;
  EXPECT_GT(exchanges(compiled(*model, one.mesh, {{"batch", micro}, {"seq", 12}}).plan)["reduce_scatter"], 3);
  expect_trains_in_parts(train(model, {}), model, one.mesh);
}

INSTANTIATE_TEST_SUITE_P(Zoo, SequenceParallel,
                         ::testing::Values(Case{"qwen2", "tensor=2"}, Case{"qwen2", "tensor=2", 61},
                                           Case{"qwen2", "tensor=2", 64, ",accumulate=4"},
                                           Case{"qwen3", "tensor=2", 1024}, Case{"gpt2", "tensor=2"},
                                           Case{"qwen2", "data=2,tensor=2"},
                                           Case{"gpt2", "data=2,tensor=2", 61}));

// Between embedding and loss, a rank has all tokens only at the start of layers.
TEST(SequenceParallel, ReplacesTheSumsOfLayers) {
  const auto model = training("qwen2", kAdamw, 64);
  const CompiledEntry whole = compiled(*model, "tensor=2", kSizes, kWhole),
                      shared = compiled(*model, "tensor=2", kSizes);
  // Forward: two sums per layer. Backward: for q, k and v, and for gate and up. One sum each for the embedding and
  // the head's input.
  EXPECT_EQ(exchanges(whole.plan), (Counts{{"all_reduce", 16}}));
  // Gathers the inputs of layers and head, and the gradients of layers' and the embedding's outputs. Norms are
  // gathered again.
  EXPECT_EQ(exchanges(shared.plan), (Counts{{"reduce_scatter", 16}, {"all_gather", 15}}));
  EXPECT_LT(shared.plan.arena_bytes, whole.plan.arena_bytes);
}

// Returns loss and parameters after five steps with this many samples. Biases began at 0 and are still small.
Curve steps_of(const std::shared_ptr<const Model>& model, int64_t batch, SessionOptions options) {
  options.threads = 1;
  Session session(model, options);
  testing::Numbers source(model->entry("train_step"), batch);
  Curve curve;
  for (int step = 0; step < 5; ++step)
    curve.losses.push_back(session.run("train_step", source.batch(step)).at("loss").item<double>());
  curve.states = session.states();
  return curve;
}

void expect_same_steps(const std::shared_ptr<const Model>& model, int64_t batch,
                       const std::string& mesh_text) {
  const Curve alone = steps_of(model, batch, {});
  const Mesh mesh = Mesh::parse(mesh_text);
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    expect_close(steps_of(model, batch,
                          {.memory_budget = kBudget, .mesh = mesh, .rank = rank, .collectives = collectives}),
                 alone, 5e-5);
  });
}

// If the ranks do not divide the batch, a rank's range of tokens begins and ends inside rows of the batch.
TEST(SequenceParallel, CutsRowsOfTheBatch) {
  for (const char* name : {"qwen2", "qwen3", "gpt2"}) {
    const auto model = training(name, kAdamw, 64);
    for (const int64_t batch : {1, 3}) {
      const Counts counts = exchanges(compiled(*model, "tensor=4", {{"batch", batch}, {"seq", 12}}).plan);
      EXPECT_TRUE(counts.contains("reduce_scatter")) << name << " " << batch;
      expect_same_steps(model, batch, "tensor=4");
    }
  }
}

TEST(SequenceParallel, TokensThatRanksDoNotDivideStayOnAllOfThem) {
  const auto model = training("qwen2", kAdamw, 64);
  const Counts counts = exchanges(compiled(*model, "tensor=2", {{"batch", 3}, {"seq", 11}}).plan);
  EXPECT_EQ(counts, (Counts{{"all_reduce", 16}}));
}

// Entry points without a backward pass keep no activations, so they still use sums.
TEST(SequenceParallel, OtherEntryPointsSumAsTheyDid) {
  const auto model = training("qwen2", kAdamw, 64);
  EXPECT_EQ(exchanges(compiled(*model, "tensor=2", kSizes, {}, "loss").plan), (Counts{{"all_reduce", 5}}));
}

// Dropout depends on the position of an element among all tokens. Attention has all tokens here, and its output is
// dropped there.
TEST(SequenceParallel, DropsWhatOneRankDrops) {
  const std::shared_ptr<Model> model = models::make_model("gpt2",
                                                          {{"vocab_size", "64"},
                                                           {"n_embd", "32"},
                                                           {"n_layer", "2"},
                                                           {"n_head", "4"},
                                                           {"n_positions", "32"},
                                                           {"dropout", "0.2"}},
                                                          5);
  passes::add_training(*model, passes::parse_train_options(kAdamw));
  const Plan plan = compiled(*model, "tensor=2", kSizes).plan;
  const auto is_part = [](const Step& step) {
    return step.op->name() == "dropout" && step.output_types[0].numel() == 8 * 12 * 32 / 2;
  };
  EXPECT_EQ(std::count_if(plan.steps.begin(), plan.steps.end(), is_part), 8);
  expect_trains_in_parts(train(model, {}), model, "tensor=2");
}

// The results equal those with all tokens on all ranks, up to rounding of sums.
TEST(SequenceParallel, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  const auto model = training("qwen2", std::string(kAdamw) + ",precision=bf16", 1024);
  const Curve alone = train(model, {}, 10);
  const std::vector<Curve> ranks = train_on("tensor=2", model, {.memory_budget = kBudget}, 10);
  expect_close(ranks[0], alone, 5e-2);
  testing::expect_same_bits(ranks[1], ranks[0]);
}

}  // namespace
}  // namespace genesis
