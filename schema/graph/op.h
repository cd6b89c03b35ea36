// What an op is: a row of facts and plain functions that every floor reads. An op's home is one file in
// schema/ops/, where a small struct of rules is turned into a row by make_op<>; see docs/adding-an-op.md.
//
//   struct Softmax {
//     static constexpr OpInfo info{.name = "softmax", .doc = "exp(x) / sum(exp(x)) along `axis`.",
//                                  .precision = Precision::kWide};
//     int64_t axis = -1;
//     static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
//     std::vector<TensorType> infer(Types in) const;       // throws Error
//     void grad(GradientContext& g) const;                 // leave out where no gradient exists
//     std::optional<int64_t> view_offset(Types in) const;  // only for ops whose result is bytes of input 0
//     Cost cost(Types in, Types out) const;                // only where it is not bytes_moved(in, out) alone
//     double sum_length(Types in, Types out) const;        // only where an element of a result is a sum
//   };
//
// The struct stands in the family's header, in namespace genesis::ops, so that kernels can read it; infer,
// grad, view_offset and cost are defined in the family's .cpp, beside the function an author calls.
//
// Optional inputs are trailing. Where more than one may be left out, a `has_...` attribute says which are
// there.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "schema/core/attributes.h"
#include "schema/core/shape.h"
#include "schema/graph/cost.h"

namespace genesis {

class GradientContext;

using Types = std::span<const TensorType>;

// How casting to low precision treats an op; passes/precision/precision_caster.h says what follows from it. Every op
// declares one of the five.
enum class Precision : uint8_t {
  kMatmul,  // low precision in and out, f32 accumulation inside: matrix products, attention
  kFollow,  // computes in the widest precision of its inputs: moves of data and cheap arithmetic
  kWide,    // f32 inside whatever comes in; the result may be low: norms, softmax, transcendental functions
  kF32,     // f32 in and out: sums over axes, pointwise losses, optimizer state
  kExact,   // never touched: integers, indices, random numbers
  kUndeclared,  // no op's: make_op refuses it
};
template <>
struct EnumNames<Precision> {
  static constexpr std::string_view names[] = {"matmul", "follow", "wide", "f32", "exact"};
};

struct InputCount {
  int min, max;
};
inline constexpr int kVariadic = 1 << 20;

// `output` may be written over the memory of `input` when sizes agree and nobody reads the input later.
struct InPlace {
  int output, input;
};
inline constexpr InPlace kOverFirst[] = {{0, 0}}, kOverEither[] = {{0, 0}, {0, 1}};

struct OpInfo {
  std::string_view name;
  std::string_view doc;  // one line for docs/ops.md
  InputCount inputs = {1, 1};
  Precision precision = Precision::kUndeclared;
  bool elementwise = false;  // every output element depends on the broadcast input elements at its index only
  bool commutative = false;  // of its first two inputs
  // Ranks exchange data: all along an axis of the mesh take part, each once and in the same order; in `send` and `recv`, two.
  bool collective = false;
  bool random = false;  // reads the RNG state: two equal nodes are still one value, since it is counter-based
  std::span<const InPlace> in_place = {};
  int version = 1;
};

struct OpDef {
  OpInfo info;
  std::vector<TensorType> (*infer)(const Attributes&, Types);
  Attributes (*canonical)(const Attributes&);                       // checked, with every default written out
  std::shared_ptr<const void> (*parse)(const Attributes&);          // the typed struct, for kernels
  void (*grad)(GradientContext&, const Attributes&);                // null: no gradient
  std::optional<int64_t> (*view_offset)(const Attributes&, Types);  // null: never a view. Bytes into input 0.
  // Where it depends on the node which outputs may overwrite which inputs; null: info.in_place says it.
  std::vector<InPlace> (*in_place)(const Attributes&, Types inputs, Types outputs);
  Cost (*cost)(const Attributes&, Types inputs, Types outputs);  // null: inputs and outputs move, no products
  double (*sum_length)(const Attributes&, Types inputs, Types outputs);  // null: 1

  std::string_view name() const { return info.name; }
};

// Whether it is one of these, by the structs of their rules: is<ops::Sum, ops::Mean>(op). A misspelt op does not compile.
template <class... Ops>
bool is(const OpDef& op) {
  return ((op.name() == Ops::info.name) || ...);
}

// For ops without attributes.
struct NoAttributes {
  static void fields(auto&, auto&&) {}
};

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
  return def;
}

// The row of an op, and those of a file's ops.
template <class Op>
inline constexpr OpDef kOpDef = make_op<Op>();
template <class... Ops>
inline constexpr const OpDef* kOpDefs[] = {&kOpDef<Ops>...};

// All ops, in the order of the build's list; the table is made from meson.build's list of op files.
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view name);  // null when there is none

// Which outputs may be written over which inputs of this node: same number of elements of the same size, and
// the op allows it. An input whose bytes also reach the node as another input of a different type is not
// safe.
std::vector<InPlace> in_place_pairs(const OpDef& op, const Attributes& attributes, Types inputs,
                                    Types outputs);

// Sizes must be known.
Cost cost_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

// How many terms one element of the results is a sum of at most, such as k of a product or the elements of a reduction:
// what rounding may make of it grows with them. 1 where nothing is summed. Sizes must be known.
double sum_length_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

// Checks the number of inputs, then runs the op's rule.
std::vector<TensorType> infer_types(const OpDef& op, const Attributes& attributes, Types inputs);

}  // namespace genesis
