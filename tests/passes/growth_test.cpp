// Tests that compiling takes linear time for graphs of any shape. Every stage is timed alone, so that one that grows
// faster is found long before it dominates. Times are CPU seconds.
#include <gtest/gtest.h>

#include <map>

#include "passes/core/bind.h"
#include "passes/core/rewriter.h"
#include "passes/memory/aliasing.h"
#include "passes/memory/make_plan.h"
#include "passes/memory/node_order.h"
#include "passes/memory/offsets/overlap_check.h"
#include "passes/pipelines.h"
#include "passes/training/autodiff.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/passes/large_graphs.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

using testing::processor_seconds;

class Stages {
 public:
  template <class Body>
  auto run(const std::string& name, Body&& body) {
    const Watch watch{seconds_[name], processor_seconds()};
    return body();
  }
  const std::map<std::string, double>& seconds() const { return seconds_; }
  double total() const {
    double sum = 0;
    for (const auto& [name, seconds] : seconds_) sum += seconds;
    return sum;
  }

 private:
  struct Watch {
    double& total;
    double start;
    ~Watch() { total += processor_seconds() - start; }
  };
  std::map<std::string, double> seconds_;
};

// Runs every step between a model and its plan.
Plan compile(Model& model, const std::string& entry, const Target& target, Stages& stages) {
  stages.run("verify", [&] { verify(model); });
  stages.run("text", [&] { return to_text(model).size(); });
  PassContext context;
  context.target = &target;
  Graph graph = stages.run("bind", [&] { return passes::bind(model.entry(entry), {}); });
  for (const Pass& pass : pipeline_for(graph)) {
    Graph next = stages.run(std::string(pass.name), [&] { return pass.run(graph, context); });
    stages.run("verify", [&] { verify(next); });
    stages.run("compare", [&] { return same_graph(graph, next); });
    graph = std::move(next);
  }
  stages.run("late_order", [&] { return late_order(graph).size(); });
  stages.run("eager_order", [&] { return eager_order(graph).size(); });
  const auto order = stages.run("greedy_order", [&] { return greedy_order(graph, 0); });
  stages.run("aliasing", [&] { return find_aliasing(graph, order, true).roots.size(); });
  return stages.run("make_plan", [&] { return make_plan(graph, target); });
}

// Four times the nodes take four times as long in linear time and sixteen times in quadratic time; a busy machine is
// in between. Very short times may vary.
constexpr int64_t kFew = 1500, kMany = 4 * kFew;
constexpr double kMaxGrowth = 9, kAtOnce = 0.2;

// A search for a smaller arena may use its budget, which is the same for all sizes.
double at_once(const std::string& stage) { return stage == "make_plan" ? 2.5 : kAtOnce; }

void expect_in_proportion(const std::string& shape, const Stages& few, const Stages& many) {
  for (const auto& [stage, seconds] : many.seconds())
    EXPECT_LT(seconds, kMaxGrowth * few.seconds().at(stage) + at_once(stage))
        << stage << " of '" << shape << "': " << few.seconds().at(stage) << " s for " << kFew << " nodes, "
        << seconds << " s for " << kMany;
}

Stages stages_of(const std::string& shape, int64_t nodes) {
  Stages stages;
  const auto model = stages.run("build", [&] { return testing::large_graph(shape).make(nodes); });
  compile(*model, "main", {}, stages);
  return stages;
}

class Growth : public ::testing::TestWithParam<std::string> {};

TEST_P(Growth, IsInProportionToTheGraph) {
  expect_in_proportion(GetParam(), stages_of(GetParam(), kFew), stages_of(GetParam(), kMany));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Growth, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& graph : testing::large_graphs()) names.push_back(graph.name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

// Includes the gradients of everything to one input. `large_device`: a device for which casts and updates are
// grouped.
Stages training_stages(int64_t nodes, bool large_device) {
  Stages stages;
  const auto model = stages.run("build", [&] { return testing::make_layers(nodes); });
  model->replace_entry(
      stages.run("prepare", [&] { return run_passes(model->entry("loss"), preparation_pipeline(), {}); }));
  stages.run("add_train_step", [&] { add_train_step(*model, parse_train_options("adamw,clip=1.0")); });
  Target target = large_device ? large_gpu() : Target{};
  target.is_native = large_device ? nullptr : never_native;
  compile(*model, "train_step", target, stages);
  return stages;
}

TEST(GrowthOfTraining, IsInProportionToTheGraph) {
  expect_in_proportion("layers", training_stages(kFew, false), training_stages(kMany, false));
}

TEST(GrowthOfTraining, IsInProportionWhereUpdatesAreGrouped) {
  expect_in_proportion("layers", training_stages(kFew, true), training_stages(kMany, true));
}

Stages gradient_stages(const std::string& shape, int64_t nodes) {
  Stages stages;
  const auto model = stages.run("build", [&] { return testing::large_graph(shape).make(nodes); });
  Graph& graph = model->entry("main");
  stages.run("gradients", [&] {
    const Value loss = sum(graph.output("y"));
    graph.add_output("dx", gradients(graph, loss, {graph.input("x")})[0]);
  });
  compile(*model, "main", {}, stages);
  return stages;
}

class GrowthOfGradients : public ::testing::TestWithParam<std::string> {};

TEST_P(GrowthOfGradients, IsInProportionToTheGraph) {
  expect_in_proportion(GetParam(), gradient_stages(GetParam(), kFew / 2),
                       gradient_stages(GetParam(), kMany / 2));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GrowthOfGradients, ::testing::Values("residual", "shared_operand"),
                         [](const auto& info) { return info.param; });

// It takes 2 to 4 seconds on an idle machine; quadratic work takes a minute.
TEST(GrowthToALargeGraph, FiftyThousandNodesTakeSeconds) {
  EXPECT_LT(stages_of("random", 50'000).total(), 20);
}

}  // namespace
}  // namespace genesis::passes
