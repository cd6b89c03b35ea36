// Matrix products.
#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "models/formats/onnx/quantization.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::models::onnx {
namespace {

// Products of integers are computed in f64, which is exact up to 2^53.
Value plain_product(Value a, Value b) {
  if (is_float(a.dtype())) return matmul(a, b);
  return cast(matmul(cast(a, DType::f64), cast(b, DType::f64)), a.dtype());
}
Value product_of(Value a, Value b) {
  if (a.rank() == 1 && b.rank() == 1) return reshape(plain_product(unsqueeze(a, 0), unsqueeze(b, 1)), {});
  if (a.rank() == 1) return squeeze(plain_product(unsqueeze(a, 0), b), -2);
  if (b.rank() == 1) return squeeze(plain_product(a, unsqueeze(b, 1)), -1);
  return plain_product(a, b);
}

Value general_product(Call& call) {
  Value a = call.tensor(0), b = call.tensor(1);
  const bool flips_a = call.attribute("transA", 0) != 0, flips_b = call.attribute("transB", 0) != 0;
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  call.accept_any("broadcast");
  if (!flips_a && flips_b && alpha == 1 && beta == 1 && call.has(2) && a.dtype() == b.dtype() &&
      is_float(a.dtype())) {
    const Value c = call.tensor(2);
    if (c.rank() == 1 && c.dim(0) == b.dim(0)) return linear(a, b, c);
  }
  if (flips_a) a = transpose(a);
  if (flips_b) b = transpose(b);
  Value y = plain_product(a, b);
  if (alpha != 1) y = cast(y * alpha, y.dtype());
  if (!call.has(2)) return y;
  const Value c = call.tensor(2);
  return y + (beta == 1 ? c : cast(c * beta, c.dtype()));
}

Value product_of_indices(Call& call) { return einsum(call.text("equation", ""), call.tensors()); }

// Integers minus their zero point, which is a number, or one for each row of the left and each column of the right operand.
Value centered(Value x, Value zero, bool is_left) {
  const Value wide = cast(x, DType::f64);
  if (!zero) return wide;
  Value z = cast(zero, DType::f64);
  if (z.rank() == 1 && is_left) z = unsqueeze(z, 1);
  return wide - z;
}
Value integer_product(Call& call) {
  const Value a = centered(call.tensor(0), call.tensor_or(2, {}), true),
              b = centered(call.tensor(1), call.tensor_or(3, {}), false);
  return cast(product_of(a, b), DType::i32);
}

// a, its scale, its zero point, the same of b, scale and zero point of y.
Value quantized_product(Call& call) {
  const auto by_row = [](Value scale, bool is_left) {
    return scale.rank() == 1 && is_left ? unsqueeze(scale, 1) : scale;
  };
  const Value a = centered(call.tensor(0), call.tensor(2), true),
              b = centered(call.tensor(3), call.tensor(5), false);
  const Value scale = cast(by_row(call.tensor(1), true), DType::f64) *
                      cast(by_row(call.tensor(4), false), DType::f64) / cast(call.tensor(6), DType::f64);
  return saturated(round(product_of(a, b) * scale) + cast(call.tensor(7), DType::f64), call.element(7));
}

// Expands along the first row; larger matrices than 4 x 4 are refused.
Value determinant(Value x, int64_t n) {
  if (n == 1) return select(select(x, -1, 0), -1, 0);
  Value total;
  for (int64_t column = 0; column < n; ++column) {
    const Value rows = narrow(x, -2, 1, n - 1);
    std::vector<Value> rest;
    if (column > 0) rest.push_back(narrow(rows, -1, 0, column));
    if (column < n - 1) rest.push_back(narrow(rows, -1, column + 1, n - 1 - column));
    const Value minor = determinant(rest.size() == 1 ? rest[0] : concat(rest, x.rank() - 1), n - 1);
    const Value term = select(select(x, -2, 0), -1, column) * minor;
    total = !total ? term : column % 2 == 0 ? total + term : total - term;
  }
  return total;
}
Value determinant_of(Call& call) {
  const Value x = call.tensor(0);
  const int64_t n = x.dim(-1).value();
  if (x.dim(-2) != x.dim(-1) || n < 1 || n > 4)
    fail("the determinant of {} is not read", x.type().to_string());
  return determinant(x, n);
}

}  // namespace

const Operators& product_operators() {
  static const Operators kOperators = {
      {"Det", one<determinant_of>},
      {"Einsum", one<product_of_indices>},
      {"Gemm", one<general_product>},
      {"MatMul", binary<product_of>},
      {"MatMulInteger", one<integer_product>},
      {"QLinearMatMul", one<quantized_product>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
