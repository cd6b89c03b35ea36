// OpDef, the definition of an op: a row of facts and plain functions that all parts of the library read. Each op lives in one
// file in schema/ops/, where make_op<> turns a small struct of rules into a row; see docs/adding-an-op.md.
//
//     struct Softmax {
//       static constexpr OpInfo info{.name = "softmax", .doc = "exp(x) / sum(exp(x)) along `axis`.",
//                                    .precision = Precision::kWide};
//       int64_t axis = -1;
//       static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
//       std::vector<TensorType> infer(Types in) const;       // throws Error
//       void grad(GradientContext& g) const;                 // omit if there is no gradient, or if there is a formula
//       Value formula(Operands x) const;                     // only if the library's own ops can compute it
//       std::optional<int64_t> view_offset(Types in) const;  // only for ops whose result is a view of input 0's bytes
//       Cost cost(Types in, Types out) const;                // only if it is not bytes_moved(in, out) alone
//       double sum_length(Types in, Types out) const;        // only if an element of a result is a sum
//     };
//
// The struct stands in the header of the op's family, in namespace genesis::ops, so that kernels can read it; infer, grad,
// view_offset and cost are defined in the family's .cpp, beside the function that an author calls.
//
// Optional inputs are trailing. If more than one may be left out, a `has_...` attribute says which are present.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schema/core/attributes.h"
#include "schema/core/shape.h"
#include "schema/graph/cost.h"

namespace genesis {

class GradientContext;
struct Value;

using Types = std::span<const TensorType>;
using Operands = std::span<const Value>;  // a node's inputs, for its formula

// Says how casting to low precision treats an op; passes/precision/precision_caster.h describes the consequences. Every op
// declares one of the first five classes.
enum class Precision : uint8_t {
  kMatmul,      // low precision in and out, f32 accumulation inside: matrix products, attention
  kFollow,      // computes in the widest precision of its inputs: data movement and cheap arithmetic
  kWide,        // f32 inside for any input; may give low precision: norms, softmax, transcendental functions
  kF32,         // f32 in and out: sums over axes, pointwise losses, optimizer state
  kExact,       // never changed: integers, indices, random numbers
  kUndeclared,  // the default, which make_op rejects
};
template <>
struct EnumNames<Precision> {
  static constexpr std::string_view names[] = {"matmul", "follow", "wide", "f32", "exact"};
};

struct InputCount {
  int min, max;
};
inline constexpr int kVariadic = 1 << 20;

// `output` may overwrite the memory of `input` if sizes agree and no later node reads the input.
struct InPlace {
  int output, input;
};
inline constexpr InPlace kOverFirst[] = {{0, 0}}, kOverEither[] = {{0, 0}, {0, 1}};

struct OpInfo {
  std::string_view name;
  std::string_view doc;  // one line for docs/ops.md
  InputCount inputs = {1, 1};
  Precision precision = Precision::kUndeclared;
  bool elementwise = false;  // every output element depends only on the broadcast input elements at its index
  bool commutative = false;  // in its first two inputs
  // Ranks exchange data: all ranks along a mesh axis take part, each once and in the same order; in `send` and `recv`, two ranks.
  bool collective = false;
  bool random = false;  // reads the RNG state; two equal nodes give one value, as it is counter-based
  std::span<const InPlace> in_place = {};
  int version = 1;
};

struct OpDef {
  OpInfo info;
  std::vector<TensorType> (*infer)(const Attributes&, Types);
  Attributes (*canonical)(const Attributes&);                       // checks them, writes out every default
  std::shared_ptr<const void> (*parse)(const Attributes&);          // the typed struct, for kernels
  void (*grad)(GradientContext&, const Attributes&);                // null: no gradient
  std::optional<int64_t> (*view_offset)(const Attributes&, Types);  // bytes into input 0; null: never a view
  // Returns which outputs may overwrite which inputs, if that depends on the node; null: info.in_place says it.
  std::vector<InPlace> (*in_place)(const Attributes&, Types inputs, Types outputs);
  Cost (*cost)(const Attributes&, Types inputs, Types outputs);  // null: inputs and outputs move, no products
  double (*sum_length)(const Attributes&, Types inputs, Types outputs);  // null: 1
  // Writes the results with other ops; null: there is no formula. passes/core/formula.h checks and uses it.
  std::vector<Value> (*formula)(const Attributes&, Operands inputs);

  std::string_view name() const { return info.name; }
};

// Returns true if the op is one of these, given by the structs of their rules: is<ops::Sum, ops::Mean>(op). A misspelled op does
// not compile.
template <class... Ops>
bool is(const OpDef& op) {
  return ((op.name() == Ops::info.name) || ...);
}

// The attributes of an op without attributes.
struct NoAttributes {
  static void fields(auto&, auto&&) {}
};

// Returns the results of a formula, which may return one value or several.
template <class Result>
std::vector<Value> as_results(Result result) {
  if constexpr (std::is_same_v<Result, Value>)
    return {result};
  else
    return result;
}

template <class Op>
constexpr OpDef make_op() {
  static_assert(Op::info.precision != Precision::kUndeclared, "an op declares its precision class");
  OpDef def{};
  def.info = Op::info;
  def.infer = [](const Attributes& a, Types in) { return from_attributes<Op>(a).infer(in); };
  def.canonical = [](const Attributes& a) { return to_attributes(from_attributes<Op>(a)); };
  def.parse = [](const Attributes& a) -> std::shared_ptr<const void> {
    return std::make_shared<const Op>(from_attributes<Op>(a));
  };
  if constexpr (requires(const Op& op, GradientContext& g) { op.grad(g); })
    def.grad = [](GradientContext& g, const Attributes& a) { from_attributes<Op>(a).grad(g); };
  if constexpr (requires(const Op& op, Types in) { op.view_offset(in); })
    def.view_offset = [](const Attributes& a, Types in) { return from_attributes<Op>(a).view_offset(in); };
  if constexpr (requires(const Op& op, Types t) { op.in_place(t, t); })
    def.in_place = [](const Attributes& a, Types in, Types out) {
      return from_attributes<Op>(a).in_place(in, out);
    };
  if constexpr (requires(const Op& op, Types t) { op.cost(t, t); })
    def.cost = [](const Attributes& a, Types in, Types out) { return from_attributes<Op>(a).cost(in, out); };
  if constexpr (requires(const Op& op, Types t) { op.sum_length(t, t); })
    def.sum_length = [](const Attributes& a, Types in, Types out) {
      return from_attributes<Op>(a).sum_length(in, out);
    };
  if constexpr (requires(const Op& op, Operands x) { op.formula(x); })
    def.formula = [](const Attributes& a, Operands x) {
      return as_results(from_attributes<Op>(a).formula(x));
    };
  return def;
}

// The row of an op, and the rows of all ops of a file.
template <class Op>
inline constexpr OpDef kOpDef = make_op<Op>();
template <class... Ops>
inline constexpr const OpDef* kOpDefs[] = {&kOpDef<Ops>...};

// Returns all ops, in the order of meson.build's list of op files.
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view name);  // null if there is none

// Returns which outputs of this node may overwrite which inputs: the op allows it, and both have the same number of elements of
// the same size. An input whose bytes also reach the node as another input of a different type is not safe; the caller must
// exclude it.
std::vector<InPlace> in_place_pairs(const OpDef& op, const Attributes& attributes, Types inputs,
                                    Types outputs);

// Returns the cost of a node. Sizes must be known.
Cost cost_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

// Returns the greatest number of terms summed in one element of the results, such as k of a product or the elements of a
// reduction; 1 if nothing is summed. Rounding errors grow with it. Sizes must be known.
double sum_length_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

// Checks the number of inputs, then applies the op's rule.
std::vector<TensorType> infer_types(const OpDef& op, const Attributes& attributes, Types inputs);

}  // namespace genesis
