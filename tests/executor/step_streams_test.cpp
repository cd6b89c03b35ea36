// Tests that steps on a side stream change no result: everything that a step waits for is done before it, by the
// order of its own stream or by a wait for another.
#include "executor/cuda/step_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "backends/cpu/kernels.h"
#include "executor/compile.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/training/train_step.h"
#include "schema/ops/collective/collective.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

constexpr int32_t kNothing = StepStreams::kNothing;
constexpr StepStreams::Waits kNoWaits = StepStreams::kNoWaits;
constexpr int64_t kSmallBytes = 1024, kLargeBytes = 400 << 20;

// Returns a step with inputs and an output of `bytes` each.
Step step(std::vector<int64_t> inputs, int64_t output, int64_t bytes) {
  const auto buffer = [&](int64_t at) { return BufferRef{Space::kArena, 0, at * kLargeBytes, bytes}; };
  const TensorType type{DType::u8, {bytes}};
  Step made{.op = find_op("neg")};
  for (int64_t input : inputs) {
    made.inputs.push_back(buffer(input));
    made.input_types.push_back(type);
  }
  made.outputs = {buffer(output)};
  made.output_types = {type};
  return made;
}

StepStreams streams_of(const Plan& plan) { return assign_streams(plan, make_step_graph(plan), {}); }

int count_aside(const StepStreams& streams) {
  return static_cast<int>(std::count(streams.stream.begin(), streams.stream.end(), StepStreams::kAside));
}

TEST(StepStreams, ASmallStepRunsBesideALargeOne) {
  Plan plan;
  plan.steps = {step({}, 0, kLargeBytes), step({0}, 1, kSmallBytes), step({0}, 2, kLargeBytes),
                step({1, 2}, 3, kLargeBytes)};
  const StepStreams streams = streams_of(plan);
  EXPECT_EQ(streams.stream, (std::vector<uint8_t>{0, StepStreams::kAside, 0, 0}));
  EXPECT_EQ(streams.waits_for, (std::vector<StepStreams::Waits>{
                                   kNoWaits, {0, kNothing, kNothing}, kNoWaits, {kNothing, 1, kNothing}}));
  EXPECT_EQ(streams.last[StepStreams::kAside], 1);
}

// A step stays in line if the waits between streams would take longer than the step.
TEST(StepStreams, FollowTheSpeedsThatTheyAreGiven) {
  Plan plan;
  plan.steps = {step({}, 0, kLargeBytes), step({0}, 1, kSmallBytes), step({0}, 2, kLargeBytes),
                step({1, 2}, 3, kLargeBytes)};
  const StepGraph graph = make_step_graph(plan);
  EXPECT_EQ(count_aside(assign_streams(plan, graph, {})), 1);
  EXPECT_EQ(count_aside(assign_streams(plan, graph, {.switching_seconds = 1})), 0);
  EXPECT_EQ(count_aside(assign_streams(plan, graph, {.filling_seconds = 1e-6})), 0);
  EXPECT_DOUBLE_EQ(least_microseconds(plan.steps[1], {.shortest_seconds = 7e-6}), 7);
}

// An exchange goes to a side stream if other work can hide it, and else stays where its reader is.
TEST(StepStreams, AnExchangeGoesAsideWhereSomethingHidesIt) {
  for (const bool is_hidden : {false, true}) {
    Plan plan;
    plan.steps = {step({}, 0, kLargeBytes), step({0}, 1, kSmallBytes),
                  step({is_hidden ? 0 : 1}, 2, kLargeBytes), step({1, 2}, 3, kLargeBytes)};
    plan.steps[1].op = find_op("all_reduce");
    plan.steps[1].attributes = to_attributes(ops::AllReduce{"data", RankReduction::kSum});
    const uint8_t expected = is_hidden ? StepStreams::kExchange : StepStreams::kMain;
    EXPECT_EQ(streams_of(plan).stream, (std::vector<uint8_t>{0, expected, 0, 0}));
  }
}

TEST(StepStreams, WhatDependsOnNothingWaitsForTheBeginning) {
  Plan plan;
  plan.steps = {step({}, 0, kSmallBytes), step({}, 1, kLargeBytes)};
  const StepStreams streams = streams_of(plan);
  EXPECT_EQ(streams.stream, (std::vector<uint8_t>{StepStreams::kAside, 0}));
  EXPECT_EQ(streams.waits_for,
            (std::vector<StepStreams::Waits>{{StepStreams::kBegin, kNothing, kNothing}, kNoWaits}));
}

TEST(StepStreams, AChainAndLargeStepsStayInLine) {
  Plan chain, large;
  for (int64_t i = 0; i < 6; ++i) {
    chain.steps.push_back(step({i}, i + 1, kSmallBytes));
    large.steps.push_back(step({0}, i + 1, kLargeBytes));
  }
  EXPECT_EQ(count_aside(streams_of(chain)), 0);
  EXPECT_EQ(streams_of(chain).last, kNoWaits);
  EXPECT_EQ(count_aside(streams_of(large)), 0);
}

// Follows all streams and checks which steps are certainly done when a step starts.
void expect_order(const Plan& plan, const StepStreams& streams) {
  using Done = StepStreams::Waits;  // by stream: its last finished step
  const StepGraph graph = make_step_graph(plan);
  std::vector<Done> behind(plan.steps.size());  // after a step is done
  std::array<Done, StepStreams::kStreams> now;  // by stream
  now.fill({-1, -1, -1});
  std::vector<std::vector<size_t>> predecessors(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int32_t next : graph.successors[i]) predecessors[static_cast<size_t>(next)].push_back(i);
  }
  std::array<bool, StepStreams::kStreams> joined = {true};  // a capture joins a stream at its first wait
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const uint8_t stream = streams.stream[i];
    Done& mine = now[stream];
    for (size_t other = 0; other < StepStreams::kStreams; ++other) {
      const int32_t waits_for = streams.waits_for[i][other];
      joined[stream] = joined[stream] || waits_for != kNothing;
      if (waits_for < 0) continue;
      ASSERT_LT(static_cast<size_t>(waits_for), i);
      ASSERT_EQ(streams.stream[static_cast<size_t>(waits_for)], other);
      ASSERT_NE(other, stream);
      for (size_t s = 0; s < StepStreams::kStreams; ++s)
        mine[s] = std::max(mine[s], behind[static_cast<size_t>(waits_for)][s]);
    }
    ASSERT_TRUE(joined[stream]);
    for (size_t p : predecessors[i])
      ASSERT_GE(mine[streams.stream[p]], static_cast<int32_t>(p)) << "step " << i << " needs step " << p;
    mine[stream] = static_cast<int32_t>(i);
    behind[i] = mine;
    ASSERT_TRUE(stream == StepStreams::kMain || streams.last[stream] >= static_cast<int32_t>(i));
  }
}

TEST(StepStreams, EveryDependencyOfRealPlansIsKept) {
  const std::shared_ptr<Model> model = models::make_model("qwen2", {{"hidden_size", "512"},
                                                                    {"intermediate_size", "1024"},
                                                                    {"num_hidden_layers", "2"},
                                                                    {"num_attention_heads", "4"},
                                                                    {"num_key_value_heads", "2"},
                                                                    {"vocab_size", "64"}});
  const passes::TrainOptions train = passes::parse_train_options("adamw,clip=1.0");
  model->replace_entry(passes::run_passes(model->entry(train.entry), passes::preparation_pipeline(), {}, {}));
  passes::add_train_step(*model, train);
  const Target target = cpu::cpu_target();
  for (const auto& [entry, bindings] :
       {std::pair<std::string, Bindings>{"train_step", {{"batch", 16}, {"seq", 1024}}},
        {"prefill", {{"seq", 1024}}},
        {"decode", {}}}) {
    const CompiledEntry made = compile_entry(*model, entry, bindings, target, {});
    const StepStreams streams = streams_of(made.plan);
    if (entry == "train_step") {
      EXPECT_GT(count_aside(streams), 3);
    } else if (entry == "decode") {
      EXPECT_EQ(count_aside(streams), 0) << "a chain of kernels that are over at once";
    }
    expect_order(made.plan, streams);
    const CompiledEntry of_rank =
        compile_entry(*model, entry, bindings, target, {.mesh = Mesh::parse("data=2")});
    expect_order(of_rank.plan, streams_of(of_rank.plan));
    const auto& of_steps = streams_of(of_rank.plan).stream;
    EXPECT_EQ(std::count(of_steps.begin(), of_steps.end(), StepStreams::kExchange),
              entry == "train_step" ? 2 : 0)
        << "how many targets count, and the loss: nothing hides the last gradients, nor their norm";
    const CompiledEntry of_layers =
        compile_entry(*model, entry, bindings, target, {.mesh = Mesh::parse("tensor=2")});
    expect_order(of_layers.plan, streams_of(of_layers.plan));
    EXPECT_TRUE(made.runner.side_stream);
    EXPECT_FALSE(compile_entry(*model, entry, bindings, target, {.disabled = {"side_stream"}})
                     .runner.side_stream);
  }
}

}  // namespace
}  // namespace genesis
