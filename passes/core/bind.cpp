#include "passes/core/bind.h"

#include "passes/core/rewriter.h"
#include "schema/graph/verify.h"

namespace genesis::passes {
namespace {

Attributes substitute(const Attributes& attributes, const Bindings& bindings) {
  Attributes result = attributes;
  for (const auto& [name, value] : attributes)
    if (auto* shape = std::get_if<Shape>(&value)) result.set(name, shape->substitute(bindings));
  return result;
}

void check_sizes(const Bindings& bindings) {
  for (const auto& [symbol, size] : bindings)
    if (size < 0) fail("the symbol '{}' is bound to {}: sizes are not negative", symbol, size);
}

}  // namespace

Graph bind(const Graph& graph, const Bindings& bindings) {
  check_sizes(bindings);
  std::vector<TensorType> input_types;
  for (ValueId id : graph.inputs()) {
    const TensorType& type = graph.type(id);
    input_types.push_back({type.dtype, type.shape.substitute(bindings)});
  }
  Rewriter rewriter(graph, input_types);
  for (const Node& node : graph.nodes())
    bindings.empty() ? rewriter.copy(node) : rewriter.copy_with(node, substitute(node.attributes, bindings));
  Graph bound = rewriter.finish();
  check_total_bytes(bound);
  return bound;
}

std::vector<std::string> symbols_of(const Graph& graph) {
  std::vector<std::string> symbols;
  const auto collect = [&](const Shape& shape) {
    for (const Dim& dim : shape) dim.collect_symbols(symbols);
  };
  for (ValueId id : graph.inputs()) collect(graph.type(id).shape);
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, value] : node.attributes)
      if (auto* shape = std::get_if<Shape>(&value)) collect(*shape);
    for (ValueId id : node.outputs) collect(graph.type(id).shape);
  }
  return symbols;
}

std::optional<SolvedSymbol> solve_symbol(const Dim& dim, int64_t size) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  if (symbols.size() != 1) return std::nullopt;
  // Computes with Dim, whose arithmetic is checked for overflow.
  const Dim at_zero = dim.substitute({{symbols[0], 0}}), slope = dim.substitute({{symbols[0], 1}}) - at_zero;
  if (!(dim == Dim::symbol(symbols[0]) * slope + at_zero)) return std::nullopt;
  const auto solved = (Dim(size) - at_zero).divide_exact(slope);
  if (!solved || solved->value() < 0) return std::nullopt;
  return SolvedSymbol{symbols[0], solved->value()};
}

}  // namespace genesis::passes
