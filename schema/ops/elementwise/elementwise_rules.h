// What the elementwise families (unary, activation, binary, compare) share: dtype rules and the builders of
// their table rows. An op without attributes is a type in elementwise.h and one row: rule for types, gradient.
#pragma once

#include <algorithm>
#include <array>

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"

namespace genesis::elementwise {

using G = GradientContext;
using A = const Attributes&;
using InferRule = std::vector<TensorType> (*)(A, Types);
using GradRule = void (*)(G&, A);

// PyTorch's promotion: operands of rank 0 count only when they are of a higher category (float over integer
// over bool) than those of rank 1 and more.
DType promote_operands(Types in);
Shape broadcast_operands(Types in);
inline DType real(DType t) { return is_float(t) ? t : DType::f32; }

// f(x...) with the promoted dtype; the second makes reals of integers; the third gives bools.
std::vector<TensorType> infer_promoted(A, Types in);
std::vector<TensorType> infer_real(A, Types in);
std::vector<TensorType> infer_bool(A, Types in);
// As infer_promoted, for ops that mean nothing on bools alone.
std::vector<TensorType> infer_numeric(A, Types in);

// The gradient of a step function: zero, so nothing is set.
inline constexpr GradRule kZeroGradient = [](G&, A) {};

template <class Op>
constexpr OpDef row(InferRule infer, GradRule grad = nullptr) {
  OpDef def{};
  def.info = Op::info;
  def.infer = infer;
  def.canonical = [](A a) { return to_attributes(from_attributes<NoAttributes>(a)); };
  def.parse = [](A) -> std::shared_ptr<const void> { return nullptr; };
  def.grad = grad;
  return def;
}

// The rows of a table.
template <const auto& rows>
std::span<const OpDef* const> pointers_to() {
  static const auto pointers = [] {
    std::array<const OpDef*, std::size(rows)> all;
    std::ranges::transform(rows, all.begin(), [](const OpDef& row) { return &row; });
    return all;
  }();
  return pointers;
}

inline Value zero_like(Value x) { return scalar_like(x, 0.0); }

}  // namespace genesis::elementwise
