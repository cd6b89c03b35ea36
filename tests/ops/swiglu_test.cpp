// swiglu against its formula.
#include <cmath>

#include "schema/ops/attention.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

Ref swiglu_reference(const Refs& x) {
  Ref y = x[0];
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = x[0][i] / (1 + std::exp(-x[0][i])) * x[1][i];
  return y;
}

void check_swiglu(const std::string& name, const std::vector<int64_t>& shape, double limit = 4) {
  check({.name = "swiglu_" + name,
         .inputs = {real(shape, -limit, limit), real(shape)},
         .build = [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; },
         .reference = [](const Refs& x) { return Refs{swiglu_reference(x)}; }});
}

TEST(Swiglu, Shapes) {
  check_swiglu("matrix", {5, 7});
  check_swiglu("scalar", {});
  check_swiglu("vectors", {3, 2, 64});
  check_swiglu("empty", {0, 4});
  check_swiglu("large_gates", {64}, 80);
}

// More than one task.
TEST(Swiglu, Large) {
  check({.name = "swiglu_large",
         .inputs = {real({300, 333}, -5, 5), real({300, 333})},
         .build = [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; },
         .reference = [](const Refs& x) { return Refs{swiglu_reference(x)}; },
         .gradient = false});
}

TEST(Swiglu, ExtremeGates) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto results =
      run_graph({{"gate", Tensor::of<float>({4}, {-200, 200, infinity, std::nanf("")})},
                 {"up", Tensor::of<float>({4}, {1, 1, 2, 1})}},
                [](const Inputs& x) {
                  return std::vector<std::pair<std::string, Value>>{{"y", swiglu(x[0], x[1])}};
                });
  const auto y = results.at("y").as<float>();
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 200);
  EXPECT_EQ(y[2], infinity);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(Swiglu, Errors) {
  const auto build = [](TensorType gate, TensorType up) {
    return [=] { infer_case({gate, up}, [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; }); };
  };
  expect_error(build({DType::f32, {2, 3}}, {DType::f32, {3}}), {"one type", "f32[3]", "f32[2,3]"});
  expect_error(build({DType::i32, {3}}, {DType::i32, {3}}), {"floating-point"});
}

}  // namespace
}  // namespace genesis::testing
