// Tests plans: order, aliases, in-place updates, and that none of them changes a result.
#include "passes/memory/make_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/kernels.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/memory/node_order.h"
#include "passes/memory/offsets/overlap_check.h"
#include "passes/training/train_step.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr int64_t kBytes = 64 * 64 * 4;

struct Case {
  Model model;
  Graph& graph = model.add_entry("main");
  Value x = graph.add_input("x", {DType::f32, {64, 64}});
  Plan plan(const PlanOptions& options = {}) { return make_plan(graph, cpu::cpu_target(), options); }
};

TEST(MakePlan, AChainOfElementwiseNodesRunsInOneBuffer) {
  Case c;
  c.graph.add_output("y", exp(neg(exp(c.x))));
  EXPECT_EQ(c.plan().arena_bytes, kBytes);
  EXPECT_EQ(c.plan({.in_place = false}).arena_bytes, 2 * kBytes);
  EXPECT_EQ(c.plan({.in_place = false, .reuse = false}).arena_bytes, 3 * kBytes);
}

TEST(MakePlan, ViewsAreNoSteps) {
  Case c;
  c.graph.add_output("y", neg(reshape(c.x, {4096})));
  EXPECT_EQ(c.plan().steps.size(), 1u);
  EXPECT_EQ(c.plan().steps[0].inputs[0].space, Space::kInput);
}

TEST(MakePlan, AnInputIsNeverOverwritten) {
  Case c;
  c.graph.add_output("y", neg(c.x));
  EXPECT_EQ(c.plan().steps[0].outputs[0].space, Space::kArena);
}

TEST(MakePlan, AnUpdateIsWrittenIntoTheStateWhenNobodyReadsTheOldValue) {
  Case c;
  const int32_t s = c.model.add_state({.name = "s", .type = {DType::f32, {64, 64}}});
  c.graph.add_update(s, c.graph.state(s) + c.x);
  const Plan plan = c.plan();
  EXPECT_TRUE(plan.state_copies.empty());
  EXPECT_EQ(plan.steps[0].outputs[0], (BufferRef{Space::kState, s, 0, kBytes}));
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(MakePlan, AnUpdateWaitsWhileTheOldValueIsStillAnOutput) {
  Case c;
  const int32_t s = c.model.add_state({.name = "s", .type = {DType::f32, {64, 64}}});
  const Value old_value = c.graph.state(s);
  c.graph.add_update(s, old_value + c.x);
  c.graph.add_output("old", old_value);
  EXPECT_EQ(c.plan().state_copies.size(), 1u);
}

// A state that holds two parameters, both updated by one node. `keeps_old`: another node reads the old second
// parameter later.
struct StateOfTwoParameters {
  static constexpr int64_t kHalf = 3;
  std::shared_ptr<Model> model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");

  explicit StateOfTwoParameters(bool keeps_old) {
    const int32_t both = add("both", {1, 2, 3, 4, 5, 6});
    const int32_t moments[] = {add("m0", {0, 0, 0}), add("m1", {0, 0, 0}), add("v0", {0, 0, 0}), add("v1", {0, 0, 0})};
    const Value old[] = {narrow(graph.state(both), 0, Dim(0), Dim(kHalf)),
                         narrow(graph.state(both), 0, Dim(kHalf), Dim(kHalf))};
    const Value gradient = graph.add_input("gradient", {DType::f32, {kHalf}});
    std::vector<Value> inputs = {full(graph, {}, 0.5), full(graph, {}, 1.0, DType::i64), old[0], old[1], gradient,
                                 neg(gradient)};
    for (const int32_t moment : moments) inputs.push_back(graph.state(moment));
    const std::vector<Value> results = emit_node(ops::AdamUpdate{.weight_decays = {0, 0}}, inputs);
    graph.add_update(both, concat({results[0], results[1]}, 0));
    for (size_t i = 0; i < 4; ++i) graph.add_update(moments[i], results[2 + i]);
    if (keeps_old) graph.add_output("old", results[0] + old[1]);
  }

  int32_t add(const std::string& name, std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return model->add_state(
        {.name = name, .type = {DType::f32, {count}}, .initial = Tensor::of<float>({count}, values)});
  }
  Plan plan() const { return make_plan(graph, cpu::cpu_target()); }
  static size_t count(const Plan& plan, std::string_view op) {
    return static_cast<size_t>(
        std::ranges::count_if(plan.steps, [&](const Step& step) { return step.op->name() == op; }));
  }
};

TEST(MakePlan, PartsOfAStateAreWrittenOverTheOldOnes) {
  const StateOfTwoParameters c(false);
  const Plan plan = c.plan();
  EXPECT_EQ(c.count(plan, "concat"), 0u);
  EXPECT_TRUE(plan.state_copies.empty());
  Session session(c.model);
  session.run("main", {{"gradient", Tensor::of<float>({3}, {1, -1, 1})}});
  EXPECT_EQ(session.state("both").to_doubles(), (std::vector<double>{0.5, 2.5, 2.5, 4.5, 4.5, 6.5}));
}

TEST(MakePlan, PartsOfAStateWaitWhileAnOldOneIsStillRead) {
  const StateOfTwoParameters c(true);
  EXPECT_EQ(c.count(c.plan(), "concat"), 1u);
  Session session(c.model);
  const NamedTensors out = session.run("main", {{"gradient", Tensor::of<float>({3}, {1, -1, 1})}});
  EXPECT_EQ(out.at("old").to_doubles(), (std::vector<double>{4.5, 7.5, 8.5}));
  EXPECT_EQ(session.state("both").to_doubles(), (std::vector<double>{0.5, 2.5, 2.5, 4.5, 4.5, 6.5}));
}

TEST(MakePlan, TwoStatesCanChangePlaces) {
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("swap");
  const TensorType type{DType::f32, {2}};
  const int32_t a = model->add_state({.name = "a", .type = type, .initial = Tensor::of<float>({2}, {1, 2})});
  const int32_t b = model->add_state({.name = "b", .type = type, .initial = Tensor::of<float>({2}, {3, 4})});
  graph.add_update(a, graph.state(b));
  graph.add_update(b, graph.state(a));
  Session session(model);
  session.run("swap");
  EXPECT_EQ(session.state("a").to_doubles(), (std::vector<double>{3, 4}));
  EXPECT_EQ(session.state("b").to_doubles(), (std::vector<double>{1, 2}));
}

TEST(MakePlan, ACacheIsAppendedInPlaceAndReadAfterwards) {
  Case c;
  const int32_t cache = c.model.add_state({.name = "cache", .type = {DType::f32, {1024, 64}}});
  const Value position = c.graph.add_input("position", {DType::i64, {}});
  const Value appended = dynamic_update_slice(c.graph.state(cache), c.x, position, 0);
  c.graph.add_update(cache, appended);
  c.graph.add_output("total", sum(appended));
  const Plan plan = c.plan();
  EXPECT_TRUE(plan.state_copies.empty());
  EXPECT_LT(plan.arena_bytes, 64 * 1024);
}

TEST(MakePlan, TheOrderKeepsFewBytesAlive) {
  Case c;
  std::vector<Value> wide;
  for (int i = 0; i < 8; ++i) wide.push_back(matmul(c.x, c.x * static_cast<double>(i + 2)));
  Value total = sum(wide[0]);
  for (size_t i = 1; i < wide.size(); ++i) total = total + sum(wide[i]);
  c.graph.add_output("y", total);
  EXPECT_LT(c.plan().lower_bound_bytes, c.plan({.schedule = false}).lower_bound_bytes / 2);
  EXPECT_EQ(c.plan().arena_bytes, c.plan().lower_bound_bytes);
}

TEST(MakePlan, EveryOrderRunsInputsFirst) {
  Case c;
  const Value constant = full(c.graph, {64, 64}, 2.0);
  c.graph.add_output("y", matmul(c.x, constant) + sum(exp(c.x)));
  for (const auto& order :
       {graph_order(c.graph), late_order(c.graph), eager_order(c.graph), greedy_order(c.graph)}) {
    ASSERT_EQ(order.size(), c.graph.nodes().size());
    std::vector<bool> made(c.graph.values().size(), false);
    for (NodeId id : order) {
      for (ValueId input : c.graph.node(id).inputs)
        EXPECT_TRUE(c.graph.value(input).kind != ValueKind::kNode || made[static_cast<size_t>(input.index)]);
      for (ValueId output : c.graph.node(id).outputs) made[static_cast<size_t>(output.index)] = true;
    }
  }
}

// Few rows and large weights: the arena of a training step consists of gradients.
std::shared_ptr<Model> model_of_large_layers(const std::string& training) {
  std::shared_ptr<Model> model = models::make_model(
      "mlp", {{"in_features", "128"}, {"hidden_features", "128"}, {"num_hidden_layers", "4"}});
  add_train_step(*model, parse_train_options(training));
  return model;
}
constexpr int64_t kGradientBytes = 128 * 128 * 4;

int64_t peak_of_step(const std::string& training, const SessionOptions& options = {}) {
  Session session(model_of_large_layers(training), options);
  return session.plan("train_step", {{"batch", 4}}).lower_bound_bytes;
}

TEST(MakePlan, AnUpdateRunsBehindItsGradient) {
  for (const char* training : {"adamw", "sgd,momentum=0.9", "lion", "adamw,moments=8bit"}) {
    EXPECT_LT(peak_of_step(training), kGradientBytes * 3 / 2) << training;
    EXPECT_GE(peak_of_step(training, {.disabled = {"node_order"}}), 4 * kGradientBytes) << training;
  }
  // The norm of all gradients is needed first, and gradients of the next micro-batch are added to those of the last one.
  for (const char* training : {"adamw,clip=1.0", "adamw,accumulate=2"})
    EXPECT_GE(peak_of_step(training), 4 * kGradientBytes) << training;
}

// Returns the losses and the parameters after three steps.
std::vector<Tensor> results_of_steps(const std::string& training, const SessionOptions& options) {
  Session session(model_of_large_layers(training), options);
  std::vector<float> x(4 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 37) / 37 - 0.5f;
  const NamedTensors inputs{{"x", Tensor::of<float>({4, 128}, x)},
                            {"target", Tensor::of<int64_t>({4}, {1, 7, 0, 3})}};
  std::vector<Tensor> results;
  for (int step = 0; step < 3; ++step) results.push_back(session.run("train_step", inputs).at("loss"));
  for (const State& state : session.model().states()) results.push_back(session.state(state.name));
  return results;
}

TEST(MakePlan, EarlyUpdatesKeepEveryBit) {
  for (const char* training : {"adamw", "adamw,moments=8bit", "sgd,momentum=0.9", "muon"}) {
    const std::vector<Tensor> early = results_of_steps(training, {}),
                              late = results_of_steps(training, {.disabled = {"node_order"}});
    ASSERT_EQ(early.size(), late.size());
    for (size_t i = 0; i < early.size(); ++i)
      EXPECT_EQ(early[i].to_doubles(), late[i].to_doubles()) << training << " " << i;
  }
}

TEST(MakePlan, APeakNamesItsTensorsLargestFirst) {
  Case c;
  c.graph.push_scope("layers.3");
  c.graph.add_output("y", matmul(c.x, exp(c.x)));
  const Plan plan = c.plan();
  ASSERT_FALSE(plan.peak.empty());
  for (size_t i = 1; i < plan.peak.size(); ++i) EXPECT_GE(plan.peak[i - 1].bytes, plan.peak[i].bytes);
  EXPECT_NE(plan.peak[0].name.find("layers.3."), std::string::npos);
}

bool holds(const ArenaBlock& block, const BufferRef& ref) {
  return ref.space == Space::kArena && block.offset <= ref.offset &&
         ref.offset + ref.bytes <= block.offset + block.bytes;
}

bool holds_any(const ArenaBlock& block, const std::vector<BufferRef>& refs) {
  return std::any_of(refs.begin(), refs.end(), [&](const BufferRef& ref) { return holds(block, ref); });
}

bool is_scratch_of(const ArenaBlock& block, const Step& step) {
  return step.scratch_bytes > 0 && block.offset == step.scratch_offset;
}

void check_no_overlap(const Plan& plan) {
  std::vector<PlanBuffer> buffers;
  std::vector<int64_t> offsets;
  for (const ArenaBlock& block : plan.blocks) {
    buffers.push_back({block.first_step, block.last_step + 1, block.bytes});
    offsets.push_back(block.offset);
  }
  EXPECT_FALSE(find_overlap(buffers, offsets));
}

void check_live_bytes(const Plan& plan) {
  std::vector<int64_t> live(plan.steps.size(), 0);
  for (const ArenaBlock& block : plan.blocks)
    for (int32_t i = block.first_step; i <= block.last_step; ++i) live[static_cast<size_t>(i)] += block.bytes;
  const int64_t most = *std::max_element(live.begin(), live.end());
  EXPECT_EQ(most, plan.lower_bound_bytes);
  EXPECT_LE(most, plan.arena_bytes);
}

// Checks that everything a step accesses in the arena is in a block that is alive then.
void check_references(const Plan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (const auto* refs : {&plan.steps[i].inputs, &plan.steps[i].outputs})
      for (const BufferRef& ref : *refs) {
        if (ref.space != Space::kArena || ref.bytes == 0) continue;
        EXPECT_EQ(std::count_if(plan.blocks.begin(), plan.blocks.end(),
                                [&](const ArenaBlock& block) {
                                  return holds(block, ref) && block.first_step <= static_cast<int32_t>(i) &&
                                         static_cast<int32_t>(i) <= block.last_step;
                                }),
                  1)
            << plan.steps[i].name;
      }
}

// Checks that a block begins where it is written, and ends at its last use or with the run.
void check_ends(const Plan& plan) {
  for (const ArenaBlock& block : plan.blocks) {
    const Step& first = plan.steps[static_cast<size_t>(block.first_step)];
    const Step& last = plan.steps[static_cast<size_t>(block.last_step)];
    if (is_scratch_of(block, first)) {
      EXPECT_EQ(block.first_step, block.last_step) << block.name;
      continue;
    }
    EXPECT_TRUE(holds_any(block, first.outputs)) << block.name;
    EXPECT_TRUE(static_cast<size_t>(block.last_step) + 1 == plan.steps.size() ||
                holds_any(block, last.inputs) || holds_any(block, last.outputs))
        << block.name;
  }
}

void check_blocks(const Plan& plan) {
  check_no_overlap(plan);
  check_live_bytes(plan);
  check_references(plan);
  check_ends(plan);
}

TEST(MakePlan, BlocksSayWhatStandsInTheArenaWhen) {
  Case c;
  const Value a = matmul(c.x, exp(c.x));
  c.graph.add_output("y", matmul(slice(a, 0, 0, 32), neg(a)));
  const int32_t s = c.model.add_state({.name = "s", .type = {DType::f32, {64, 64}}});
  const int32_t t = c.model.add_state({.name = "t", .type = {DType::f32, {64, 64}}});
  c.graph.add_update(s, c.graph.state(t));  // two values are moved to the arena at the end
  c.graph.add_update(t, c.graph.state(s));
  for (const bool in_place : {true, false})
    for (const bool schedule : {true, false})
      check_blocks(c.plan({.in_place = in_place, .schedule = schedule}));
}

TEST(MakePlan, BlocksOfTrainingStepsAreTrue) {
  for (const char* layers : {"4", "24"}) {
    std::shared_ptr<Model> model = models::make_model("qwen2", {{"hidden_size", "32"},
                                                                {"intermediate_size", "64"},
                                                                {"num_hidden_layers", layers},
                                                                {"num_attention_heads", "4"},
                                                                {"num_key_value_heads", "2"}});
    add_train_step(*model, parse_train_options("adamw,clip=1.0"));
    Session session(model);
    check_blocks(session.plan("train_step", {{"batch", 2}, {"seq", 16}}));
  }
}

}  // namespace
}  // namespace genesis::passes
