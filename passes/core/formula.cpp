#include "passes/core/formula.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "schema/ops/elementwise/cast.h"

namespace genesis::passes {
namespace {

std::vector<Value> operands_of(const OpDef& op, std::vector<Value> inputs) {
  if (op.info.precision == Precision::kWide)
    for (Value& x : inputs)
      if (is_low_precision(x.dtype())) x = cast(x, DType::f32);
  return inputs;
}

// Returns `result` in the dtype of `type`, if both are reals.
Value fitted(Value result, const TensorType& type) {
  return is_float(result.dtype()) && is_float(type.dtype) ? cast(result, type.dtype) : result;
}

// Checks the nodes of a formula, which are those of the graph from number `first` on.
void check_nodes(const OpDef& op, const Graph& graph, size_t first, FormulaParts& parts) {
  for (size_t i = first; i < graph.nodes().size(); ++i) {
    const OpDef& part = *graph.nodes()[i].op;
    if (part.info.random)
      fail(
          "the formula of op '{}' draws random numbers ({}), which would differ each time it is written: "
          "give the op a kernel and a gradient instead",
          op.name(), part.name());
    if (part.formula) parts.add(op, part);
  }
}

}  // namespace

void FormulaParts::add(const OpDef& op, const OpDef& part) {
  if (!parts_[&op].insert(&part).second) return;
  const std::vector<const OpDef*> back = way(&part, &op);
  if (back.empty()) return;
  std::vector<std::string_view> names = {op.name()};
  for (const OpDef* there : back) names.push_back(there->name());
  fail("the formula of op '{}' leads back to its own op ({}): write it with other ops", op.name(),
       fmt::join(names, " -> "));
}

// Returns the ops from one to another, both included; empty if no formula leads there.
std::vector<const OpDef*> FormulaParts::way(const OpDef* from, const OpDef* to) const {
  if (from == to) return {to};
  std::map<const OpDef*, const OpDef*> source = {{from, nullptr}};
  std::vector<const OpDef*> open = {from};
  while (!open.empty() && !source.contains(to)) {
    const OpDef* op = open.back();
    open.pop_back();
    if (const auto at = parts_.find(op); at != parts_.end())
      for (const OpDef* part : at->second)
        if (source.emplace(part, op).second) open.push_back(part);
  }
  if (!source.contains(to)) return {};
  std::vector<const OpDef*> ops;
  for (const OpDef* op = to; op; op = source[op]) ops.push_back(op);
  std::ranges::reverse(ops);
  return ops;
}

std::vector<Value> write_formula(const OpDef& op, const Attributes& attributes,
                                 const std::vector<Value>& inputs, FormulaParts& parts) {
  if (inputs.empty()) fail("the formula of op '{}' needs an operand to be written with", op.name());
  const Graph& graph = *inputs[0].graph;
  const size_t first = graph.nodes().size();
  std::vector<TensorType> types;
  for (const Value& input : inputs) types.push_back(input.type());
  const std::vector<TensorType> expected = infer_types(op, attributes, types);
  std::vector<Value> results =
      with_context([&] { return op.formula(attributes, operands_of(op, inputs)); },
                   [&] { return fmt::format("in the formula of op '{}'", op.name()); });
  check_nodes(op, graph, first, parts);
  if (results.size() != expected.size())
    fail("the formula of op '{}' returns {} values, and its rule infers {} results: correct one of them",
         op.name(), results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      fail("the formula of op '{}' returns an empty value as result {}, expected {}", op.name(), i,
           expected[i].to_string());
    results[i] = fitted(results[i], expected[i]);
    if (!(results[i].type() == expected[i]))
      fail("the formula of op '{}' gives {} as result {}, and its rule infers {}: correct one of them",
           op.name(), results[i].type().to_string(), i, expected[i].to_string());
  }
  return results;
}

}  // namespace genesis::passes
