// Tests looking at runs (executor/inspection) with a model of the zoo: made inputs, comparisons, benchmarks, profiles and needs.
#include <gtest/gtest.h>

#include "executor/inspection/benchmark.h"
#include "executor/inspection/compare_runs.h"
#include "executor/inspection/make_inputs.h"
#include "executor/inspection/profile_table.h"
#include "executor/inspection/run_needs.h"
#include "executor/inspector.h"
#include "executor/runtime/device.h"
#include "models/zoo.h"
#include "schema/core/setting_error.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

using testing::error_of;

class Inspection : public ::testing::Test {
 protected:
  const std::shared_ptr<const Model> model_ = models::make_model("mlp", {});
  const Graph& forward_ = model_->entry("forward");
  const std::string input_ = forward_.value(forward_.inputs()[0]).name;
  const MadeInputs made_ = make_inputs(forward_, {.sizes = {{"batch", 4}}, .seed = 3});
};

TEST_F(Inspection, MakesInputsThatWereNotRequested) {
  EXPECT_EQ(made_.invented, std::vector<std::string>{input_});
  EXPECT_TRUE(made_.used_seed);
  EXPECT_EQ(made_.tensors.at(input_).type().shape[0].value(), 4);
  const MadeInputs full = make_inputs(forward_, {.inputs = {input_ + "=full:2"}});
  EXPECT_FALSE(full.used_seed);
  EXPECT_EQ(full.tensors.at(input_).to_doubles()[0], 2);
  EXPECT_THROW(make_inputs(forward_, {.inputs = {input_ + "=nonsense"}}), SettingError);
  EXPECT_THROW(parse_sizes({"batch"}), SettingError);
  EXPECT_NE(error_of([&] {
              make_inputs(forward_, {.sizes = {{"bach", 4}}});
            }).find("batch"),
            std::string::npos);
}

TEST_F(Inspection, ComparesRuns) {
  CompareOptions options;
  options.b.threads = 1;
  EXPECT_TRUE(options.promise_same_bits());
  const RunComparison same = compare_runs(model_, made_.tensors, options);
  EXPECT_FALSE(same.first);
  EXPECT_FALSE(same.values.empty());
  EXPECT_EQ(same.sizes, (Bindings{{"batch", 4}}));
  options.b.optimize = false;
  EXPECT_TRUE(options.by_rounding());
  EXPECT_FALSE(compare_runs(model_, made_.tensors, options).first);
}

TEST_F(Inspection, MeasuresAndProfiles) {
  Session session(model_);
  World world;
  const Benchmark measured = benchmark(session, made_.tensors, {.runs = 5}, world);
  EXPECT_EQ(measured.runs, 5u);
  EXPECT_LE(measured.least_ms, measured.median_ms);
  EXPECT_GT(measured.gflop, 0);
  EXPECT_EQ(measured.tokens_per_second, 0);
  const Plan& plan = session.plan("forward", made_.tensors);
  const std::vector<double> us(plan.steps.size(), 3);
  const StepTimes times{us, us, Inspector(session).kernels("forward", made_.tensors)};
  const auto rows = profile_table(plan, times, measured.peaks, /*by_op=*/true);
  int64_t steps = 0;
  for (const ProfileRow& row : rows) steps += row.count;
  EXPECT_EQ(steps, static_cast<int64_t>(plan.steps.size()));
}

TEST_F(Inspection, SaysWhatRunsWouldTake) {
  const auto needs = run_needs(*model_, {{"batch", 4}}, target_of("cpu"), {}, /*with_kernels=*/true);
  ASSERT_FALSE(needs.empty());
  EXPECT_GT(needs[0].states, 0);
  EXPECT_GE(needs[0].peak(), needs[0].arena + needs[0].states);
  EXPECT_FALSE(needs[0].kernels.empty());
  EXPECT_NE(error_of([&] { run_needs(*model_, {}, target_of("cpu"), {}, false); }).find("--size"),
            std::string::npos);
}

}  // namespace
}  // namespace genesis
