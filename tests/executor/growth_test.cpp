// Tests that the executor's work on a plan of many steps, or a session with many states, takes linear time. Times are
// CPU seconds.
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>

#include "backends/cpu/kernels.h"
#include "executor/runtime/step_graph.h"
#include "executor/session.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/passes/large_graphs.h"

namespace genesis {
namespace {

using testing::processor_seconds;

template <class Body>
double seconds_of(Body&& body) {
  const double start = processor_seconds();
  body();
  return processor_seconds() - start;
}

// Returns a plan with these inputs and outputs of its steps.
Plan plan_of(const std::vector<std::pair<std::vector<BufferRef>, std::vector<BufferRef>>>& steps) {
  Plan plan;
  for (const auto& [inputs, outputs] : steps) {
    Step step{.op = find_op("neg")};
    step.inputs = inputs;
    step.outputs = outputs;
    step.input_types = {{DType::f32, {4}}};
    step.output_types = {{DType::f32, {4}}};
    plan.steps.push_back(step);
  }
  return plan;
}

BufferRef bytes(int64_t offset, int64_t count) { return {Space::kArena, 0, offset, count}; }

// Computes the waits by definition: a step waits for the last ones that accessed its memory, unless both only read.
std::vector<std::set<int32_t>> waits_of(const Plan& plan) {
  struct Access {
    int64_t begin, end;
    int32_t step;
    bool writes;
  };
  std::vector<std::set<int32_t>> waits(plan.steps.size());
  std::vector<Access> accesses;
  for (int32_t i = 0; i < static_cast<int32_t>(plan.steps.size()); ++i) {
    const auto touch = [&](const BufferRef& ref, bool writes) {
      const Access next{ref.offset, ref.offset + ref.bytes, i, writes};
      for (const Access& earlier : accesses)
        if (earlier.begin < next.end && next.begin < earlier.end && (earlier.writes || writes) &&
            earlier.step != i)
          waits[static_cast<size_t>(i)].insert(earlier.step);
      if (writes)
        std::erase_if(accesses, [&](const Access& a) {
          return a.step != i && next.begin <= a.begin && a.end <= next.end;
        });
      accesses.push_back(next);
    };
    for (const BufferRef& ref : plan.steps[static_cast<size_t>(i)].inputs) touch(ref, false);
    for (const BufferRef& ref : plan.steps[static_cast<size_t>(i)].outputs) touch(ref, true);
  }
  return waits;
}

TEST(StepGraph, IsWhatTheDefinitionSays) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const auto any = [&] {
      const int64_t length = int64_t{1} << random() % 6;
      return bytes(static_cast<int64_t>(random() % 64), length + static_cast<int64_t>(random() % 3));
    };
    std::vector<std::pair<std::vector<BufferRef>, std::vector<BufferRef>>> steps;
    for (int i = 0; i < 60; ++i) steps.push_back({{any(), any()}, {any()}});
    const Plan plan = plan_of(steps);
    const StepGraph graph = make_step_graph(plan);
    const std::vector<std::set<int32_t>> waits = waits_of(plan);
    for (size_t i = 0; i < waits.size(); ++i) {
      ASSERT_EQ(graph.waits[i], static_cast<int32_t>(waits[i].size()));
      for (const int32_t earlier : waits[i]) {
        const auto& next = graph.successors[static_cast<size_t>(earlier)];
        ASSERT_TRUE(std::find(next.begin(), next.end(), static_cast<int32_t>(i)) != next.end());
      }
    }
  }
}

// Many steps read a buffer, and many small outputs replace it afterwards. Each waits for the readers, all but the
// first through the first.
TEST(StepGraph, ManyReadersTimesManyWritersAreNotAsManyWaits) {
  constexpr int64_t kMany = 10'000;
  std::vector<std::pair<std::vector<BufferRef>, std::vector<BufferRef>>> steps;
  steps.push_back({{}, {bytes(0, 64 * kMany)}});
  for (int64_t i = 0; i < kMany; ++i)
    steps.push_back({{bytes(0, 64 * kMany)}, {bytes(64 * (kMany + i), 64)}});
  for (int64_t i = 0; i < kMany; ++i) steps.push_back({{bytes(64 * (kMany + i), 64)}, {bytes(64 * i, 64)}});
  const Plan plan = plan_of(steps);
  StepGraph graph;
  EXPECT_LT(seconds_of([&] { graph = make_step_graph(plan); }), 10);
  const auto first = static_cast<size_t>(kMany) + 1;
  EXPECT_EQ(graph.waits[first], kMany + 1) << "all readers, and the writer";
  for (size_t i = first + 1; i < graph.waits.size(); ++i) ASSERT_LE(graph.waits[i], 3);
}

// It takes 2 to 4 seconds on an idle machine with all checks; quadratic work would take minutes.
TEST(GrowthOfASession, FiftyThousandStepsAreMadeReadyInSeconds) {
  SessionOptions plainly{.optimize = false};
  const std::shared_ptr<Model> model = testing::large_graph("shared_operand").make(50'000);
  Session session(model, plainly);
  EXPECT_LT(seconds_of([&] { session.plan("main", {}); }), 30);
}

TEST(GrowthOfASession, ManyStatesAndUpdatesAreRunAndSaved) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "many_states.genesis";
  const std::shared_ptr<Model> model = testing::large_graph("many_states").make(15'000);
  EXPECT_LT(seconds_of([&] { save_model(*model, path); }), 2.5);
  std::shared_ptr<Model> loaded;
  EXPECT_LT(seconds_of([&] { loaded = load_model(path); }), 2.5);
  std::filesystem::remove(path);
  Session session(loaded, {.threads = 1});
  const std::vector<float> ones(64, 1);
  EXPECT_LT(seconds_of([&] { session.run("main", {{"x", Tensor::of<float>({8, 8}, ones)}}); }), 10);
  EXPECT_EQ(session.state("counts.0").as<float>()[0], 1);
}

TEST(GrowthOfASession, ManyOutputsAndInputsAreGivenAndTaken) {
  constexpr int64_t kMany = 10'000;
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  NamedTensors inputs;
  for (int64_t i = 0; i < kMany; ++i) {
    const std::string number = std::to_string(i);
    graph.add_output("y" + number, neg(graph.add_input("x" + number, {DType::f32, {1}})));
    inputs.emplace("x" + number, Tensor::of<float>({1}, {static_cast<float>(i)}));
  }
  Session session(model, {.threads = 1});
  NamedTensors outputs;
  EXPECT_LT(seconds_of([&] { outputs = session.run("main", inputs); }), 20);
  EXPECT_EQ(outputs.at("y7").as<float>()[0], -7);
}

}  // namespace
}  // namespace genesis
