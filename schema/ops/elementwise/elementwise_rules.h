// Shared by the elementwise families (unary, activation, binary, compare): dtype rules and the builders of their table rows. An
// op without attributes is a type in elementwise.h and one row with its rule for types and its gradient.
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

// Returns the dtype by PyTorch's promotion: operands of rank 0 count only if they are of a higher category (float over integer
// over bool) than those of rank 1 and more.
DType promote_operands(Types in);
Shape broadcast_operands(Types in);
inline DType real(DType t) { return is_float(t) ? t : DType::f32; }

// Rules for types: infer_promoted gives the promoted dtype, infer_real a real dtype also for integers, infer_bool bool.
std::vector<TensorType> infer_promoted(A, Types in);
std::vector<TensorType> infer_real(A, Types in);
std::vector<TensorType> infer_bool(A, Types in);
// Like infer_promoted, for ops that are not defined on bools alone.
std::vector<TensorType> infer_numeric(A, Types in);

// The gradient of a step function is zero, so nothing is set.
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

// Returns pointers to the rows of a table.
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
