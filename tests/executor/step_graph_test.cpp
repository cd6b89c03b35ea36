// Tests that steps wait for exactly those whose memory they access, and that running steps as soon as they are ready
// changes no bit.
#include "executor/runtime/step_graph.h"

#include <gtest/gtest.h>

#include <cstring>

#include "executor/session.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis {
namespace {

Step step(std::vector<BufferRef> inputs, std::vector<BufferRef> outputs, int64_t scratch_offset = 0,
          int64_t scratch_bytes = 0) {
  Step made{.op = find_op("neg")};
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.scratch_offset = scratch_offset;
  made.scratch_bytes = scratch_bytes;
  return made;
}
BufferRef arena(int64_t offset, int64_t bytes) { return {Space::kArena, 0, offset, bytes}; }
BufferRef state(int32_t index, int64_t bytes) { return {Space::kState, index, 0, bytes}; }

TEST(StepGraph, WaitsForWritersReadersAndScratch) {
  Plan plan;
  plan.steps.push_back(step({}, {arena(0, 64)}));                // 0 writes a
  plan.steps.push_back(step({arena(0, 64)}, {arena(64, 64)}));   // 1 reads a, writes b
  plan.steps.push_back(step({arena(0, 32)}, {arena(128, 64)}));  // 2 reads part of a, writes c
  plan.steps.push_back(step({arena(64, 64)}, {arena(0, 64)}));   // 3 reads b, writes over a
  plan.steps.push_back(step({}, {arena(512, 64)}, 128, 32));     // 4 scratch over c
  plan.steps.push_back(step({state(0, 64)}, {state(1, 64)}));    // 5 other spaces
  plan.steps.push_back(step({}, {state(0, 64)}));                // 6 overwrites what 5 reads
  const StepGraph graph = make_step_graph(plan);
  EXPECT_EQ(graph.successors[0], (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(graph.successors[1], (std::vector<int32_t>{3}));
  EXPECT_EQ(graph.successors[2], (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(graph.successors[3].empty());
  EXPECT_EQ(graph.successors[5], (std::vector<int32_t>{6}));
  EXPECT_EQ(graph.waits, (std::vector<int32_t>{0, 1, 1, 3, 1, 0, 1}));
}

// Returns a graph of many branches that share and reuse memory.
std::shared_ptr<Model> branches() {
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {96, 96}});
  Value total = sum(x);
  for (int i = 1; i <= 24; ++i) {
    const Value y = matmul(exp(x * (0.01 * i)), x, false, i % 2 == 1);
    graph.add_output("y" + std::to_string(i), y);
    total = total + sum(tanh(y) * x);
  }
  graph.add_output("total", total);
  return model;
}

TEST(StepGraph, RunningStepsAsTheyGetReadyChangesNoBit) {
  const auto model = branches();
  std::vector<float> values(96 * 96);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 89) / 89 - 0.5f;
  const NamedTensors inputs = {{"x", Tensor::of<float>({96, 96}, values)}};
  Session one(model, {.threads = 1}), four(model, {.threads = 4});
  const NamedTensors expected = one.run("main", inputs);
  for (int run = 0; run < 30; ++run)
    for (const auto& [name, tensor] : four.run("main", inputs))
      ASSERT_EQ(std::memcmp(tensor.data(), expected.at(name).data(), static_cast<size_t>(tensor.bytes())), 0)
          << name;
}

}  // namespace
}  // namespace genesis
