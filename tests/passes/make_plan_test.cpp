// Plans: order, aliases, in-place updates, and that none of them changes a result.
#include "passes/make_plan.h"

#include <gtest/gtest.h>

#include "backends/cpu/kernels.h"
#include "executor/session.h"
#include "passes/node_order.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise.h"
#include "schema/ops/matmul.h"
#include "schema/ops/reduce.h"
#include "schema/ops/reshape.h"
#include "schema/ops/slice.h"

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
  for (const auto& order : {graph_order(c.graph), late_order(c.graph), greedy_order(c.graph)}) {
    ASSERT_EQ(order.size(), c.graph.nodes().size());
    std::vector<bool> made(c.graph.values().size(), false);
    for (NodeId id : order) {
      for (ValueId input : c.graph.node(id).inputs)
        EXPECT_TRUE(c.graph.value(input).kind != ValueKind::kNode || made[static_cast<size_t>(input.index)]);
      for (ValueId output : c.graph.node(id).outputs) made[static_cast<size_t>(output.index)] = true;
    }
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

}  // namespace
}  // namespace genesis::passes
