// Tests tensors by name: a misspelled result is an Error that lists the existing names.
#include "executor/named_tensors.h"

#include "executor/session.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

constexpr const char* kModel = R"(
entry step(first: f32[2], second: f32[2]) {
  %total = add(first, second)
  %difference = sub(first, second)
  return total = %total
  return difference = %difference
}
)";

Tensor two(float a, float b) { return Tensor::of<float>({2}, {a, b}); }

TEST(NamedTensors, ACallerBuildsASetAsAMap) {
  NamedTensors inputs{{"first", two(1, 2)}};
  inputs["second"] = two(3, 4);
  inputs.emplace("third", two(5, 6));
  EXPECT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs["second"].to_doubles(), (std::vector<double>{3, 4}));
  const NamedTensors made = NamedTensors::Map{{"x", two(1, 2)}};
  EXPECT_EQ(made["x"].to_doubles(), (std::vector<double>{1, 2}));
  expect_error([&] { made["y"]; }, {"there is no tensor 'y'", "there are: x"});
  expect_error([&] { NamedTensors().at("y"); }, {"there is no tensor 'y'", "there are none"});
}

TEST(NamedTensors, AMisspeltResultIsAnErrorThatSaysWhatThereIs) {
  Session session(std::shared_ptr<const Model>(parse_text(kModel)));
  NamedTensors out = session.run("step", {{"first", two(1, 2)}, {"second", two(3, 4)}});
  EXPECT_EQ(out["total"].to_doubles(), (std::vector<double>{4, 6}));
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { out["Total"]; }, [&] { out.at("Total"); }, [&] { std::as_const(out)["Total"]; },
           [&] { std::as_const(out).at("Total"); }, [&] { NamedTensors{out}["Total"] = two(0, 0); }})
    expect_error(ask, {"entry point 'step' has no output 'Total'", "there are: difference, total",
                       "did you mean 'total'?"});
  EXPECT_EQ(out.size(), 2u) << "asking adds nothing";
  out["total"] = two(0, 0);  // an existing tensor may be replaced
  EXPECT_EQ(out.at("total").to_doubles(), (std::vector<double>{0, 0}));
}

TEST(NamedTensors, AMisspeltInputIsNamedBeforeItsData) {
  Session session(std::shared_ptr<const Model>(parse_text(kModel)));
  for (const Tensor& tensor : {two(3, 4), Tensor()})
    expect_error(
        [&] {
          session.run("step", {{"first", two(1, 2)}, {"secnd", tensor}});
        },
        {"'step' has no input 'secnd'", "it takes: first, second", "did you mean 'second'?"});
}

}  // namespace
}  // namespace genesis
