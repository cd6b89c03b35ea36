#include "passes/bind.h"

#include "passes/rewriter.h"

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
  for (const Node& node : graph.nodes()) rewriter.copy_with(node, substitute(node.attributes, bindings));
  return rewriter.finish();
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
  const int64_t at_zero = dim.evaluate({{symbols[0], 0}}), slope = dim.evaluate({{symbols[0], 1}}) - at_zero;
  const bool first_degree = dim == Dim::symbol(symbols[0]) * Dim(slope) + Dim(at_zero);
  if (!first_degree || (size - at_zero) % slope != 0 || (size - at_zero) / slope < 0) return std::nullopt;
  return SolvedSymbol{symbols[0], (size - at_zero) / slope};
}

}  // namespace genesis::passes
