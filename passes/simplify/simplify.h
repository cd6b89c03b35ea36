// What the rules of simplify() are given and what they are (simplify_*.cpp).
#pragma once

#include <span>

#include "passes/core/match.h"
#include "passes/core/pass.h"

namespace genesis::passes {

// A node about to be added, its inputs already simplified.
struct Candidate {
  Graph& graph;  // the new one
  const OpDef& op;
  const Attributes& attributes;
  const std::vector<Value>& inputs;
  const TensorType& type;  // of its one output
};

// The input of the node that makes x, when that is a node of this op; empty otherwise.
template <class Op>
Value under(Value x) {
  const auto maker = match<Op>(*x.graph, x.id);
  return maker ? x.graph->handle(maker.input(0)) : Value();
}
// The same, when it is a node of the candidate's own op.
inline Value under_its_like(const Candidate& c) {
  const Node* maker = producer(c.graph, c.inputs[0].id);
  return maker && maker->op == &c.op ? c.graph.handle(maker->inputs[0]) : Value();
}

struct SimplifyRule {
  std::string_view name;
  // What stands for the candidate, or nothing. A value of another type counts as nothing.
  Value (*apply)(const Candidate&);
};

std::span<const SimplifyRule> arithmetic_rules();  // simplify_arithmetic.cpp
std::span<const SimplifyRule> layout_rules();      // simplify_layout.cpp
std::span<const SimplifyRule> product_rules();     // simplify_products.cpp

}  // namespace genesis::passes
