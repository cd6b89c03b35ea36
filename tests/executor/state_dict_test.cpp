// Tests load_state_dict for models and sessions: matching tensors are loaded, and all mismatches are listed together.
#include "executor/state_dict.h"

#include <cmath>

#include "executor/session.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;
using Names = std::vector<std::string>;

constexpr const char* kModel = R"(
state @fc.weight: f32[2,3] parameter trainable = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
state @fc.bias: bf16[2] parameter trainable
state @norm.mean: f32[2] buffer = (7.0, 8.0)
state @optimizer.step: i64[] optimizer
state @cache: f32[3] cache
entry step(x: f32[2]) {
  %next = add(@norm.mean, x)
  return after = %next
  update @norm.mean = %next
}
)";

std::shared_ptr<Model> parsed_model() { return parse_text(kModel); }
Tensor weight() { return Tensor::of<float>({2, 3}, {6, 5, 4, 3, 2, 1}); }
NamedTensors fitting() {
  return {{"fc.weight", weight()},
          {"fc.bias", Tensor::of<double>({2}, {0.5, -0.25})},
          {"norm.mean", Tensor::of<float>({2}, {1, 2})}};
}
NamedTensors misfitting() {
  return {{"fc.weight", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
          {"fc.bias", Tensor::of<int64_t>({2}, {1, 2})},
          {"fc.scale", Tensor::scalar<float>(1)},
          {"cache", Tensor::of<float>({3}, {1, 2, 3})}};
}
const std::vector<std::string> kWhatIsWrong = {"1 missing: norm.mean (f32[2])",
                                               "2 unknown to the model: cache, fc.scale",
                                               "fc.weight is f32[3,2], expected f32[2,3]",
                                               "fc.bias is i64[2], expected bf16[2]",
                                               "nothing was changed",
                                               "strict = false"};

TEST(StateDict, ASessionsIsItsParametersAndBuffers) {
  Session session(parsed_model());
  session.run("step", {{"x", Tensor::of<float>({2}, {1, 1})}});
  const NamedTensors dict = state_dict(session);
  Names names;
  for (const auto& [name, tensor] : dict) names.push_back(name);
  EXPECT_EQ(names, (Names{"fc.bias", "fc.weight", "norm.mean"}));
  EXPECT_EQ(dict["norm.mean"].to_doubles(), (Doubles{8, 9}));
  EXPECT_EQ(state_dict(*parsed_model())["norm.mean"].to_doubles(), (Doubles{7, 8}));
}

TEST(StateDict, NumbersBeyondTheRangeOfF16AreNotLoadedAsInfinities) {
  const auto into = parse_text("state @w: f16[2] parameter\nentry get() {\n  return w = @w\n}\n");
  load_state_dict(*into, {{"w", Tensor::of<float>({2}, {65504, -INFINITY})}});
  expect_error(
      [&] {
        load_state_dict(*into, {{"w", Tensor::of<float>({2}, {1, 7e4f})}});
      },
      {"in weight 'w'", "70000 is beyond the range of f16", "bf16 or f32"});
  EXPECT_EQ(state_dict(*into)["w"].to_doubles()[0], 65504);
}

TEST(StateDict, LoadsIntoASessionAndConvertsRealNumbers) {
  Session session(parsed_model());
  EXPECT_TRUE(load_state_dict(session, fitting()).fits());
  EXPECT_EQ(session.state("fc.weight").to_doubles(), (Doubles{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(session.state("fc.bias").type().to_string(), "bf16[2]");
  EXPECT_EQ(session.state("fc.bias").to_doubles(), (Doubles{0.5, -0.25}));
  const NamedTensors out = session.run("step", {{"x", Tensor::of<float>({2}, {10, 10})}});
  EXPECT_EQ(out["after"].to_doubles(), (Doubles{11, 12}));
}

TEST(StateDict, LoadsIntoAModel) {
  const std::shared_ptr<Model> made = parsed_model();
  EXPECT_TRUE(load_state_dict(*made, fitting()).fits());
  EXPECT_EQ(Session(made).state("fc.weight").to_doubles(), weight().to_doubles());
}

TEST(StateDict, OneErrorNamesAllThatDoesNotFitAndNothingChanges) {
  const std::shared_ptr<Model> made = parsed_model();
  Session session(parsed_model());
  expect_error([&] { load_state_dict(*made, misfitting()); }, kWhatIsWrong);
  expect_error([&] { load_state_dict(session, misfitting()); }, kWhatIsWrong);
  EXPECT_EQ(session.state("fc.weight").to_doubles(), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(state_dict(*made)["fc.weight"].to_doubles(), (Doubles{1, 2, 3, 4, 5, 6}));
}

TEST(StateDict, WhenNotStrictWhatFitsIsLoadedAndTheRestReturned) {
  Session session(parsed_model());
  NamedTensors tensors = misfitting();
  tensors["norm.mean"] = Tensor::of<float>({2}, {5, 6});
  tensors.erase("fc.bias");
  const StateDictReport report = load_state_dict(session, tensors, /*strict=*/false);
  EXPECT_EQ(report.missing, Names{"fc.bias"});
  EXPECT_EQ(report.unexpected, (Names{"cache", "fc.scale"}));
  ASSERT_EQ(report.mismatched.size(), 1u);
  EXPECT_EQ(report.mismatched[0].name, "fc.weight");
  EXPECT_EQ(report.mismatched[0].problem, "is f32[3,2], expected f32[2,3]");
  EXPECT_EQ(session.state("norm.mean").to_doubles(), (Doubles{5, 6}));
  EXPECT_EQ(session.state("fc.weight").to_doubles(), (Doubles{1, 2, 3, 4, 5, 6}));
}

// The result of Session::states() can be loaded again. Missing states of an optimizer are no mismatch.
TEST(StateDict, StatesOfAnOptimizerAreTakenWhereTheyAreGiven) {
  Session session(parsed_model());
  NamedTensors all = session.states();
  all["optimizer.step"] = Tensor::scalar<int64_t>(9);
  EXPECT_TRUE(load_state_dict(session, all).fits());
  EXPECT_EQ(session.state("optimizer.step").item<int64_t>(), 9);
  EXPECT_TRUE(load_state_dict(session, fitting()).fits());
  EXPECT_EQ(session.state("optimizer.step").item<int64_t>(), 9);
}

}  // namespace
}  // namespace genesis
