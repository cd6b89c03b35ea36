// Tests swiglu against its formula.
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/slice.h"
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

// The size takes more than one task.
TEST(Swiglu, Large) {
  check({.name = "swiglu_large",
         .inputs = {real({300, 333}, -5, 5), real({300, 333})},
         .build = [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; },
         .reference = [](const Refs& x) { return Refs{swiglu_reference(x)}; },
         .gradient = false});
}

// Computes swiglu of a tensor with gate and up side by side.
Ref packed_reference(const Ref& x) {
  std::vector<int64_t> shape = x.shape;
  const int64_t n = shape.back() /= 2;
  Ref y = ref_zeros(shape);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double gate = x[i / n * 2 * n + i % n], up = x[i / n * 2 * n + n + i % n];
    y[i] = gate / (1 + std::exp(-gate)) * up;
  }
  return y;
}

void check_packed_swiglu(const std::string& name, const std::vector<int64_t>& shape) {
  check({.name = "packed_swiglu_" + name,
         .inputs = {real(shape, -4, 4)},
         .build = [](const Inputs& x) { return Outputs{packed_swiglu(x[0])}; },
         .reference = [](const Refs& x) { return Refs{packed_reference(x[0])}; }});
}

TEST(Swiglu, Packed) {
  check_packed_swiglu("odd_rows", {5, 14});
  check_packed_swiglu("vector", {6});
  check_packed_swiglu("whole_vectors", {3, 2, 128});
  check_packed_swiglu("no_rows", {0, 4});
  check_packed_swiglu("no_columns", {3, 0});
}

TEST(Swiglu, PackedLarge) {
  check({.name = "packed_swiglu_large",
         .inputs = {real({300, 666}, -5, 5)},
         .build = [](const Inputs& x) { return Outputs{packed_swiglu(x[0])}; },
         .reference = [](const Refs& x) { return Refs{packed_reference(x[0])}; },
         .gradient = false});
}

// The output that a gradient also gives is that of swiglu, and it does not change the gradients.
TEST(Swiglu, AGradientGivesTheOutputAgain) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (int64_t n : {7, 64, 4100})
      for (bool packed : {false, true}) {
        std::vector<float> values(static_cast<size_t>(3 * 4 * n));
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 1009) / 100 - 5;
        const auto results = run_graph({{"x", Tensor::of<float>({4, 3 * n}, values)}}, [&](const Inputs& in) {
          const Value x = cast(in[0], dtype), both = slice(x, 1, 0, 2 * n), dy = slice(x, 1, 2 * n);
          std::vector<Value> operands = {both, dy};
          if (!packed) operands = {slice(x, 1, 0, n), slice(x, 1, n, 2 * n), dy};
          const OpDef& op = *find_op("swiglu_grad");
          const auto with =
              in.graph.add_node(op, to_attributes(ops::SwigluGrad{.with_output = true}), operands);
          const auto without = in.graph.add_node(op, {}, operands);
          std::vector<std::pair<std::string, Value>> all = {
              {"expected", packed ? packed_swiglu(both) : swiglu(operands[0], operands[1])},
              {"got", with.back()}};
          for (size_t i = 0; i < without.size(); ++i) {
            all.emplace_back("dx" + std::to_string(i), with[i]);
            all.emplace_back("expected dx" + std::to_string(i), without[i]);
          }
          return all;
        });
        EXPECT_EQ(results.at("got").to_doubles(), results.at("expected").to_doubles());
        EXPECT_EQ(results.at("dx0").to_doubles(), results.at("expected dx0").to_doubles());
        if (packed) continue;
        EXPECT_EQ(results.at("dx1").to_doubles(), results.at("expected dx1").to_doubles());
      }
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
  const auto build_packed = [](TensorType x) {
    return [=] { infer_case({x}, [](const Inputs& v) { return Outputs{packed_swiglu(v[0])}; }); };
  };
  expect_error(build_packed({DType::f32, {2, 3}}), {"[..., 2 n]", "f32[2,3]"});
  expect_error(build_packed({DType::f32, {}}), {"[..., 2 n]"});
  expect_error(build_packed({DType::i32, {4}}), {"floating-point"});
}

}  // namespace
}  // namespace genesis::testing
