// Defines the rules of simplify() and their argument (simplify_*.cpp).
#pragma once

#include <span>

#include "passes/core/match.h"
#include "passes/core/pass.h"

namespace genesis::passes {

// A node that is about to be added; its inputs are already simplified.
struct Candidate {
  Graph& graph;  // the new graph
  const OpDef& op;
  const Attributes& attributes;
  const std::vector<Value>& inputs;
  const TensorType& type;  // type of its only output
};

// Returns the input of the node that makes x if that node has this op; empty otherwise.
template <class Op>
Value under(Value x) {
  const auto maker = match<Op>(*x.graph, x.id);
  return maker ? x.graph->handle(maker.input(0)) : Value();
}
// Does the same for the candidate's own op.
inline Value under_its_like(const Candidate& c) {
  const Node* maker = producer(c.graph, c.inputs[0].id);
  return maker && maker->op == &c.op ? c.graph.handle(maker->inputs[0]) : Value();
}

struct SimplifyRule {
  std::string_view name;
  // Returns the value that replaces the candidate, or nothing. A value of another type is ignored.
  Value (*apply)(const Candidate&);
};

std::span<const SimplifyRule> arithmetic_rules();  // simplify_arithmetic.cpp
std::span<const SimplifyRule> layout_rules();      // simplify_layout.cpp
std::span<const SimplifyRule> product_rules();     // simplify_products.cpp

}  // namespace genesis::passes
