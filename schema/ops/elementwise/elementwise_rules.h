// What the elementwise families (unary, activation, binary, compare) share: dtype rules and the builders of
// their table rows. An op without attributes is one row: name, documentation, gradient.
#pragma once

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"

namespace genesis::elementwise {

using G = GradientContext;
using A = const Attributes&;
using InferRule = std::vector<TensorType> (*)(A, Types);
using GradRule = void (*)(G&, A);

inline constexpr InPlace kOverAny[] = {{0, 0}, {0, 1}, {0, 2}};

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

struct Row {
  std::string_view name, doc;
  int inputs;
  InferRule infer;
  GradRule grad = nullptr;
  Precision precision = Precision::kFollow;
  bool commutative = false;
};

constexpr OpInfo info_of(std::string_view name, std::string_view doc, int inputs = 1,
                         Precision precision = Precision::kFollow, bool commutative = false) {
  return {.name = name,
          .doc = doc,
          .inputs = {inputs, inputs},
          .precision = precision,
          .elementwise = true,
          .commutative = commutative,
          .in_place = std::span(kOverAny).first(static_cast<size_t>(inputs))};
}

constexpr OpDef make_row(const Row& row) {
  OpDef def{};
  def.info = info_of(row.name, row.doc, row.inputs, row.precision, row.commutative);
  def.infer = row.infer;
  def.canonical = [](A a) { return to_attributes(from_attributes<NoAttributes>(a)); };
  def.parse = [](A) -> std::shared_ptr<const void> { return nullptr; };
  def.grad = row.grad;
  return def;
}

// Cheap arithmetic on one number; a transcendental function of one real.
constexpr OpDef cheap(std::string_view name, std::string_view doc, GradRule grad) {
  return make_row({name, doc, 1, infer_numeric, grad});
}
constexpr OpDef transcendental(std::string_view name, std::string_view doc, GradRule grad) {
  return make_row({name, doc, 1, infer_real, grad, Precision::kWide});
}

inline Value emit(const OpDef& op, const std::vector<Value>& inputs) { return emit_node(op, {}, inputs)[0]; }
inline Value zero_like(Value x) { return scalar_like(x, 0.0); }

}  // namespace genesis::elementwise
