// Recognizes nodes by the types of their ops (schema/ops):
//
//     if (is<ops::Reshape, ops::Expand>(node)) ...                        // any of these
//     if (const auto layer = match<ops::Linear>(node)) ...                // layer->activation, layer.input(1)
//     const auto cast = match<ops::Cast>(graph, value);                   // the cast that makes `value`
//     const auto product = match_sole<ops::Matmul>(graph, uses, value);   // the same, if the pattern is its only reader
//     for (const auto& [norm, weight] : either_way(node)) ...             // operands of a commutative node, in both orders
#pragma once

#include <array>
#include <optional>

#include "passes/core/analysis.h"

namespace genesis::passes {

using genesis::is;
template <class... Ops>
bool is(const Node& node) {
  return is<Ops...>(*node.op);
}

// Returns the definition of an op, for code that adds such a node or asks a target about one.
template <class Op>
const OpDef& op_def() {
  static const OpDef& def = *find_op(Op::info.name);
  return def;
}

// A node of this op with its parsed attributes, or nothing. `matched->` reads an attribute.
template <class Op>
struct Matched {
  const Node* node = nullptr;
  Op attributes;

  explicit operator bool() const { return node != nullptr; }
  const Op* operator->() const { return &attributes; }
  ValueId input(size_t i) const { return node->inputs[i]; }
  size_t num_inputs() const { return node->inputs.size(); }
};

template <class Op>
Matched<Op> match(const Node& node) {
  return is<Op>(node) ? Matched<Op>{&node, from_attributes<Op>(node.attributes)} : Matched<Op>();
}

// Matches the node that makes `value` as its first output.
template <class Op>
Matched<Op> match(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  return node && graph.value(value).index == 0 ? match<Op>(*node) : Matched<Op>();
}

// Matches only if `value` has a single reader: a node that a rewrite absorbs must not be needed elsewhere.
template <class Op>
Matched<Op> match_sole(const Graph& graph, const Uses& uses, ValueId value) {
  return uses.single(value) ? match<Op>(graph, value) : Matched<Op>();
}

// Returns the two operands of a commutative node in both orders, for patterns that accept a certain operand on either side.
inline std::array<std::pair<ValueId, ValueId>, 2> either_way(const Node& node) {
  const ValueId a = node.inputs[0], b = node.inputs[1];
  return {{{a, b}, {b, a}}};
}

// Returns the number that all elements of a value are known to equal. The value must be a constant of one element, `full`, or a
// reshape or expansion of one of these; empty otherwise.
std::optional<double> uniform_value(const Graph& graph, ValueId value);

}  // namespace genesis::passes
