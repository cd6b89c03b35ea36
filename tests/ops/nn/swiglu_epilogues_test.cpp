// Tests linear with_swiglu and matmul with swiglu_grad against their formulas, and against the ops they replace. On a
// GPU in bf16, sizes that are multiples of 8 use the kernel that computes both; others use the decomposed form.
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

std::vector<Value> linear_with_swiglu(Value x, Value weight) {
  return linear({.epilogue = ops::LinearEpilogue::kWithSwiglu}, {x, {weight}});
}

std::vector<Value> matmul_swiglu_grad(Value a, Value b, Value gate_and_up, bool with_output = false) {
  return matmul({.epilogue = ops::MatmulEpilogue::kSwigluGrad, .with_output = with_output},
                {a, b, gate_and_up});
}

// Returns a [..., k] times b [k, n], or b [n, k]^T.
Ref product(const Ref& a, const Ref& b, bool transpose_b) {
  const int64_t k = a.dim(-1), n = b.dim(transpose_b ? 0 : 1);
  std::vector<int64_t> shape = a.shape;
  shape.back() = n;
  Ref y = ref_zeros(shape);
  for (int64_t i = 0; i < y.numel(); ++i)
    for (int64_t j = 0; j < k; ++j)
      y[i] += a[i / n * k + j] * (transpose_b ? b[i % n * k + j] : b[j * n + i % n]);
  return y;
}

struct GateAndUp {
  double gate, up;
  int64_t at_gate, at_up;
};
// Returns gate and up of element i of swiglu's result.
GateAndUp gate_and_up(const Ref& packed, int64_t i) {
  const int64_t n = packed.dim(-1) / 2, gate = i / n * 2 * n + i % n;
  return {packed[gate], packed[gate + n], gate, gate + n};
}

Ref half_of(const Ref& packed) {
  std::vector<int64_t> shape = packed.shape;
  shape.back() /= 2;
  return ref_zeros(shape);
}

Ref swiglu_reference(const Ref& packed) {
  Ref y = half_of(packed);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const GateAndUp at = gate_and_up(packed, i);
    y[i] = at.gate / (1 + std::exp(-at.gate)) * at.up;
  }
  return y;
}

Ref gradient_reference(const Ref& dy, const Ref& packed) {
  Ref d = packed;
  for (int64_t i = 0; i < dy.numel(); ++i) {
    const GateAndUp at = gate_and_up(packed, i);
    const double s = 1 / (1 + std::exp(-at.gate));
    d[at.at_gate] = dy[i] * at.up * s * (1 + at.gate * (1 - s));
    d[at.at_up] = dy[i] * at.gate * s;
  }
  return d;
}

OpCase forward_case(const std::string& name, const std::vector<int64_t>& x, int64_t n) {
  return {.name = "linear_with_swiglu_" + name,
          .inputs = {real(x), real({2 * n, x.back()})},
          .build = [](const Inputs& v) { return linear_with_swiglu(v[0], v[1]); },
          .reference =
              [](const Refs& v) {
                const Ref packed = product(v[0], v[1], true);
                return Refs{packed, swiglu_reference(packed)};
              },
          .gradient = false};
}

OpCase gradient_case(const std::string& name, const std::vector<int64_t>& dy, int64_t n, bool with_output) {
  std::vector<int64_t> packed = dy;
  packed.back() = 2 * n;
  return {.name = "matmul_swiglu_grad_" + name,
          .inputs = {real(dy), real({dy.back(), n}), real(packed, -4, 4)},
          .build = [=](const Inputs& v) { return matmul_swiglu_grad(v[0], v[1], v[2], with_output); },
          .reference =
              [=](const Refs& v) {
                Refs all = {gradient_reference(product(v[0], v[1], false), v[2])};
                if (with_output) all.push_back(swiglu_reference(v[2]));
                return all;
              },
          .gradient = false};
}

// Adapts a case to sums of many products; 16 bits round gate and up first.
OpCase long_sums(OpCase op_case) {
  op_case.inputs[1].low = -0.25, op_case.inputs[1].high = 0.25;
  op_case.tolerance = 2e-5;
  op_case.tolerance_low = 0.05;
  return op_case;
}

TEST(LinearWithSwiglu, Shapes) {
  check(forward_case("odd", {2, 3, 5}, 7));
  check(forward_case("packs", {40, 24}, 16));
  check(forward_case("one_row", {1, 16}, 8));
  check(forward_case("no_rows", {0, 8}, 8));
  check(forward_case("no_columns", {3, 8}, 0));
  check(forward_case("no_depth", {16, 0}, 8));
  check(long_sums(forward_case("tiles", {2, 150, 200}, 264)));
}

TEST(MatmulSwigluGrad, Shapes) {
  for (const bool with_output : {false, true}) {
    const std::string more = with_output ? "_with_output" : "";
    check(gradient_case("odd" + more, {2, 3, 5}, 7, with_output));
    check(gradient_case("packs" + more, {40, 24}, 16, with_output));
    check(gradient_case("one_row" + more, {1, 16}, 8, with_output));
    check(gradient_case("no_rows" + more, {0, 8}, 8, with_output));
    check(gradient_case("no_columns" + more, {3, 8}, 0, with_output));
    check(gradient_case("no_depth" + more, {16, 0}, 8, with_output));
    check(long_sums(gradient_case("tiles" + more, {2, 150, 200}, 264, with_output)));
  }
}

Tensor waves(const std::vector<int64_t>& shape, double step, double scale) {
  std::vector<float> values(static_cast<size_t>(Shape::of(shape).numel().value()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * std::sin(step * static_cast<double>(i % 100003)));
  return Tensor::of<float>(shape, values);
}

// The second result is computed from the product's stored (rounded) result, on a GPU too.
TEST(SwigluEpilogues, GiveWhatTheOpsTheyStandForGive) {
  std::vector<std::string> devices = {"cpu"};
  if (why_no_cuda().empty()) devices.push_back("cuda");
  for (const std::string& device : devices)
    for (DType dtype : {DType::f32, DType::bf16}) {
      const auto results =
          run_graph({{"x", waves({300, 200}, 0.7, 1)},
                     {"w", waves({528, 200}, 0.3, 0.3)},
                     {"v", waves({200, 264}, 0.9, 0.3)}},
                    [&](const Inputs& in) {
                      const Value x = cast(in[0], dtype);
                      const auto forward = linear_with_swiglu(x, cast(in[1], dtype));
                      const auto backward = matmul_swiglu_grad(x, cast(in[2], dtype), forward[0], true);
                      const Value again = packed_swiglu(forward[0]);
                      return std::vector<std::pair<std::string, Value>>{
                          {"h", forward[1]}, {"again", again}, {"h of the gradient", backward[1]}};
                    },
                    {.device = device, .optimize = false});
      EXPECT_EQ(results.at("h").to_doubles(), results.at("again").to_doubles()) << device;
      EXPECT_EQ(results.at("h of the gradient").to_doubles(), results.at("again").to_doubles()) << device;
    }
}

TEST(SwigluEpilogues, Errors) {
  const auto forward = [](TensorType x, TensorType w) {
    return [=] { infer_case({x, w}, [](const Inputs& v) { return linear_with_swiglu(v[0], v[1]); }); };
  };
  expect_error(forward({DType::f32, {2, 3}}, {DType::f32, {5, 3}}), {"[..., 2 n]", "f32[2,5]"});
  expect_error(forward({DType::f32, {2, 3}}, {DType::f32, {4, 2}}), {"f32[2,3]", "f32[4,2]"});
  const auto gradient = [](TensorType dy, TensorType w, TensorType packed) {
    return [=] {
      infer_case({dy, w, packed}, [](const Inputs& v) { return matmul_swiglu_grad(v[0], v[1], v[2]); });
    };
  };
  expect_error(gradient({DType::f32, {2, 3}}, {DType::f32, {3, 4}}, {DType::f32, {2, 6}}),
               {"dy must be f32[2,3]", "f32[2,4]"});
  expect_error(gradient({DType::f32, {2, 3}}, {DType::f32, {1, 3, 4}}, {DType::f32, {2, 8}}), {"[k, n]"});
}

}  // namespace
}  // namespace genesis::testing
