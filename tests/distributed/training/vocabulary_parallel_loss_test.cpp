// Tests models whose vocabulary is sharded along "tensor", against one rank that has all of it.
#include <gtest/gtest.h>

#include <filesystem>

#include "executor/session.h"
#include "executor/training/batch_source.h"
#include "passes/distribution/tensor_shards.h"
#include "passes/distribution/vocabulary_parallel_loss.h"
#include "passes/training/autodiff.h"
#include "schema/file/reader.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/debug_text.h"
#include "tests/distributed/training/small_training.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_trains_as;
using testing::relative_difference;
using testing::train;
using testing::train_on;
using testing::training;

constexpr const char* kAdamw = "adamw,lr=1e-3,eps=1e-4,clip=1.0";

Tensor numbers(std::vector<int64_t> shape, int seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i * 37 + seed)));
  return Tensor::of<float>(shape, values);
}

// Returns the shape of a rank's shard of each sharded state.
std::map<std::string, std::string> kept_of(const Model& model, const std::string& mesh) {
  std::map<std::string, std::string> kept;
  for (const StoredGroup& group : passes::find_tensor_shards(model, Mesh::parse(mesh), 1).groups)
    kept[model.state(group.members[0]).name] = group.shard->shape.to_string();
  return kept;
}

struct Case {
  const char* name;
  const char* mesh;
  int64_t vocabulary;  // from 1024 on, no rank has all logits
  bool is_tied;
  const char* table;  // a state with a row per token, and the shape of a rank's shard of it
  const char* kept;
};

class Vocabulary : public ::testing::TestWithParam<Case> {};

TEST_P(Vocabulary, TrainsAsOneRankDoes) {
  const Case& one = GetParam();
  const auto model = training(one.name, kAdamw, one.vocabulary, one.is_tied);
  EXPECT_EQ(kept_of(*model, one.mesh)[one.table], one.kept);
  const Curve alone = train(model, {});
  for (const Curve& rank : expect_trains_as(alone, model, one.mesh))
    EXPECT_LT(rank.memory.optimizer_bytes, alone.memory.optimizer_bytes * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Vocabulary,
    ::testing::Values(Case{"qwen2", "tensor=2", 64, true, "model.embed_tokens.weight", "[32,32]"},
                      Case{"qwen2", "tensor=4", 64, true, "model.embed_tokens.weight", "[16,32]"},
                      Case{"qwen2", "tensor=2", 1024, true, "model.embed_tokens.weight", "[512,32]"},
                      Case{"qwen3", "tensor=2", 1024, false, "lm_head.weight", "[512,32]"},
                      Case{"qwen3", "data=2,tensor=2", 1024, true, "model.embed_tokens.weight", "[512,32]"},
                      Case{"gpt2", "tensor=2", 64, true, "transformer.wte.weight", "[32,32]"},
                      Case{"gpt2", "tensor=4", 1024, true, "transformer.wte.weight", "[256,32]"}),
    [](const auto& one) {
      std::string name = one.param.name + ("_" + std::string(one.param.mesh)) + "_" +
                         std::to_string(one.param.vocabulary) + (one.param.is_tied ? "" : "_untied");
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

TEST(VocabularyParallel, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  const auto model = training("qwen2", std::string(kAdamw) + ",precision=bf16", 1024);
  const Curve alone = train(model, {}, 10);
  for (const bool halves : {false, true}) {
    const std::vector<Curve> ranks = train_on("tensor=2", model, {.weight_halves = halves}, 10);
    expect_close(ranks[0], alone, 5e-2);
    for (size_t i = 0; i < alone.losses.size(); ++i)
      EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 2e-3 * alone.losses[i]);
    expect_same_bits(ranks[1], ranks[0]);
  }
}

// A rank's rows of the table are sharded again along "data".
TEST(VocabularyParallel, GoesWithSharedOptimizers) {
  const auto model = training("qwen2", kAdamw, 1024);
  const std::vector<Curve> whole = train_on("data=2,tensor=2", model, {}, 10);
  for (int stage = 1; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    for (const Curve& rank : train_on("data=2,tensor=2", model, {.zero = stage}, 10))
      expect_close(rank, whole[0], 1e-5);
  }
}

TEST(VocabularyParallel, StaysWholeWhereRanksDoNotDivideItAndSaysSo) {
  for (const bool is_tied : {true, false}) {
    const auto model = training("qwen2", kAdamw, 1023, is_tied);
    std::map<std::string, std::string> kept;
    const std::string text = testing::debug_text([&] { kept = kept_of(*model, "tensor=2"); });
    EXPECT_FALSE(kept.contains("model.embed_tokens.weight"));
    EXPECT_FALSE(kept.contains("lm_head.weight"));
    EXPECT_TRUE(kept.contains("model.layers.0.mlp.up_proj.weight"));
    EXPECT_NE(text.find("dimension 0 of 'model.embed_tokens.weight' stays whole"), std::string::npos) << text;
    EXPECT_NE(text.find("2 ranks do not divide 1023"), std::string::npos) << text;
  }
}

TEST(VocabularyParallel, GoesOnOnOtherNumbersOfRanks) {
  const auto model = training("qwen2", kAdamw, 1024);
  const std::string path = ::testing::TempDir() + "genesis_vocabulary_saved.genesis";
  const Mesh mesh = Mesh::parse("tensor=2");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
    const auto source = share_of(std::make_unique<testing::Numbers>(model->entry("train_step")), mesh, rank);
    for (int step = 0; step < 5; ++step) session.run("train_step", source->batch(step));
    if (rank == 0)
      session.save(path);
    else
      session.take_part_in_gather();
  });
  const std::shared_ptr<const Model> saved = load_model(path);
  std::filesystem::remove(path);
  Curve straight = train(model, {}, 10);
  straight.losses.erase(straight.losses.begin(), straight.losses.begin() + 5);
  for (const char* other : {"tensor=2", "tensor=4", "tensor=1"})
    expect_close(train_on(other, saved, {}, 5, 5)[0], straight, 1e-5);
}

// An op combines logits with an unsharded value, as penalties for earlier tokens do. The logits are gathered there.
TEST(VocabularyParallel, LogitsAreGatheredWhereSomethingWholeMeetsThem) {
  auto model = std::make_shared<Model>();
  const int32_t table = model->add_state({.name = "table",
                                          .type = {DType::f32, {96, 32}},
                                          .role = StateRole::kParameter,
                                          .initial = numbers({96, 32}, 3)}),
                counts = model->add_state({.name = "counts",
                                           .type = {DType::f32, {96}},
                                           .role = StateRole::kBuffer,
                                           .initial = numbers({96}, 4)});
  Graph& graph = model->add_entry("next");
  const Value token = graph.add_input("token", {DType::i64, {1}});
  const Value logits = linear(embedding(token, graph.state(table)), graph.state(table));
  const Value counted = graph.state(counts) + reshape(logits, {96});
  graph.add_output("logits", tanh(logits * 0.5) - graph.state(counts));
  graph.add_output("best", argmax(logits, -1));
  graph.add_update(counts, counted);
  EXPECT_EQ(kept_of(*model, "tensor=2")["table"], "[48,32]");
  const auto run = [&](const SessionOptions& options) {
    Session session(model, options);
    session.run("next", {{"token", Tensor::of<int64_t>({1}, {50})}});
    return session.run("next", {{"token", Tensor::of<int64_t>({1}, {7})}});
  };
  const NamedTensors alone = run({.threads = 1});
  const Mesh mesh = Mesh::parse("tensor=2");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    const NamedTensors shared = run({.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
    for (const auto& [name, value] : alone)
      EXPECT_LT(relative_difference(shared.at(name), value), 1e-5) << name;
  });
}

// --- the loss by itself

constexpr int64_t kClasses = 96, kHidden = 8, kRows = 10;

struct LossCase {
  CrossEntropyOptions options;
  DType targets = DType::i64, dtype = DType::f32;
  bool is_fused = true, is_frozen = false;
  double divisor = 0;  // 0: the number of targets that count
};

// Makes one step: the loss, its gradient by x, and the weight moved against its gradient.
std::shared_ptr<const Model> model_of(const LossCase& one) {
  auto model = std::make_shared<Model>();
  const int32_t state = model->add_state({.name = "weight",
                                          .type = {DType::f32, {kClasses, kHidden}},
                                          .role = StateRole::kParameter,
                                          .trainable = !one.is_frozen,
                                          .initial = numbers({kClasses, kHidden}, 5)});
  Graph& graph = model->add_entry("step");
  const Value input = graph.add_input("x", {DType::f32, {Dim::symbol("rows"), kHidden}});
  const Value target = graph.add_input("target", {one.targets, {Dim::symbol("rows")}}),
              weight = graph.state(state);
  const Value x = cast(input, one.dtype), w = cast(weight, one.dtype);
  Value loss = one.is_fused ? linear_cross_entropy(x, w, target, one.options)
                            : cross_entropy(linear(x, w), target, one.options);
  if (one.divisor > 0)
    loss = emit_node(*find_op("linear_cross_entropy"), {},
                     {x, w, target, full(graph, {}, one.divisor, DType::f64)})[0];
  graph.add_output("loss", loss);
  if (one.options.reduction == Reduction::kNone) loss = sum(loss);
  std::vector<Value> wrt = {input};
  if (!one.is_frozen) wrt.push_back(weight);
  const std::vector<Value> gradients = passes::gradients(graph, loss, wrt);
  graph.add_output("dx", gradients[0]);
  if (!one.is_frozen) graph.add_update(state, weight - gradients[1] * 0.5);
  return model;
}

Tensor targets_of(const LossCase& one) {
  std::vector<int64_t> classes = {0, 95, -100, 47, 48, 24, 23, 71, 72, 3};
  if (one.options.ignore_index >= 0) classes[2] = one.options.ignore_index;
  if (one.targets == DType::i64) return Tensor::of<int64_t>({kRows}, classes);
  return Tensor::of<int32_t>({kRows}, std::vector<int32_t>(classes.begin(), classes.end()));
}

NamedTensors steps_of(const std::shared_ptr<const Model>& model, const LossCase& one,
                      SessionOptions options) {
  options.threads = 1;
  Session session(model, options);
  NamedTensors results;
  for (int step = 0; step < 3; ++step)
    results = session.run("step", {{"x", numbers({kRows, kHidden}, step)}, {"target", targets_of(one)}});
  for (const auto& [name, value] : session.states()) results.emplace(name, value);
  return results;
}

void expect_same_on_ranks(const LossCase& one, double bound) {
  const auto model = model_of(one);
  const NamedTensors alone = steps_of(model, one, {});
  for (const char* text : {"tensor=2", "tensor=4", "tensor=3"}) {
    const Mesh mesh = Mesh::parse(text);
    testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
      const NamedTensors shared =
          steps_of(model, one, {.mesh = mesh, .rank = rank, .collectives = collectives});
      for (const auto& [name, value] : alone)
        EXPECT_LT(relative_difference(shared.at(name), value), bound) << name << " on " << text;
    });
  }
}

TEST(VocabularyParallel, EveryFormOfTheLoss) {
  for (const bool is_fused : {true, false})
    for (const double smoothing : {0.0, 0.2})
      for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone})
        for (const int64_t ignored : {-100, 48}) {
          SCOPED_TRACE(::testing::Message()
                       << is_fused << smoothing << static_cast<int>(reduction) << ignored);
          expect_same_on_ranks({.options = {ignored, smoothing, reduction}, .is_fused = is_fused}, 1e-5);
        }
  expect_same_on_ranks({.options = {}, .targets = DType::i32}, 1e-5);
  expect_same_on_ranks({.options = {}, .is_frozen = true}, 1e-5);
  expect_same_on_ranks({.options = {}, .divisor = 0.5}, 1e-5);
  expect_same_on_ranks({.options = {}, .dtype = DType::f64}, 1e-5);
  expect_same_on_ranks({.options = {}, .dtype = DType::bf16}, 1e-2);
  expect_same_on_ranks({.options = {}, .dtype = DType::f16}, 2e-3);
}

// A class that no rank has is an error on all ranks, as it is on one.
TEST(VocabularyParallel, AnImpossibleTargetIsNamed) {
  const auto model = model_of({});
  const Mesh mesh = Mesh::parse("tensor=2");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
    testing::expect_error(
        [&] {
          session.run("step",
                      {{"x", numbers({1, kHidden}, 1)}, {"target", Tensor::of<int64_t>({1}, {kClasses})}});
        },
        {"96"});
  });
}

// Many rows are computed in blocks. The result equals that of one op, also on one rank.
TEST(VocabularyParallel, BlocksOfRowsAddUp) {
  constexpr int64_t kMany = 700, kAtOnce = 130 * 30 * 4;
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < kMany; ++i) targets.push_back(i % 11 == 0 ? -100 : i * 7 % 30);
  const auto run = [&](bool in_blocks) {
    return testing::run_graph(
        {{"x", numbers({7, 100, 8}, 1)},
         {"w", numbers({30, 8}, 2)},
         {"t", Tensor::of<int64_t>({7, 100}, targets)}},
        [&](const testing::Inputs& in) {
          ops::LinearCrossEntropy op;
          op.with_gradients = true;
          const auto y =
              in_blocks
                  ? passes::linear_cross_entropy_of_shards(op, in[0], in[1], in[2], {}, {}, kAtOnce)
                  : emit_node(*find_op("linear_cross_entropy"), to_attributes(op), {in[0], in[1], in[2]});
          EXPECT_TRUE(!in_blocks || in.graph.nodes().size() > 40);
          return std::vector<std::pair<std::string, Value>>{{"loss", y[0]}, {"dx", y[1]}, {"dw", y[2]}};
        });
  };
  const NamedTensors whole = run(false);
  for (const auto& [name, value] : run(true))
    EXPECT_LT(relative_difference(value, whole.at(name)), 1e-5) << name;
}

}  // namespace
}  // namespace genesis
