#include "executor/inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "passes/core/bind.h"
#include "schema/graph/near_names.h"

namespace genesis {
namespace {

[[noreturn]] void fail_no_input(const Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (ValueId id : graph.inputs()) known.push_back(graph.value(id).name);
  fail("entry point '{}' has no input '{}'{}; it takes: {}", graph.name(), name, did_you_mean(name, known),
       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

void check_names(const Graph& graph, const std::map<std::string, TensorType>& types) {
  std::set<std::string_view> known;
  for (ValueId id : graph.inputs()) known.insert(graph.value(id).name);
  for (const auto& [name, type] : types)
    if (!known.contains(name)) fail_no_input(graph, name);
}

[[noreturn]] void wrong_type(const Graph& graph, const ValueInfo& input, const TensorType& got,
                             const std::string& why) {
  fail("input '{}' of entry point '{}' is {}, expected {}{}", input.name, graph.name(), got.to_string(),
       input.type.to_string(), why);
}

// Gives a symbol its size from each dimension that has exactly one symbol (batch, 4*batch), or checks the size it already has.
void bind_symbols(const Graph& graph, const ValueInfo& input, const TensorType& got, Bindings& bindings) {
  if (got.dtype != input.type.dtype || got.shape.rank() != input.type.shape.rank())
    wrong_type(graph, input, got, "");
  for (int i = 0; i < got.shape.rank(); ++i) {
    const auto solved = passes::solve_symbol(input.type.shape[i], got.shape[i].value());
    if (!solved) continue;
    const auto [at, fresh] = bindings.try_emplace(solved->symbol, solved->size);
    if (!fresh && at->second != solved->size)
      wrong_type(graph, input, got,
                 fmt::format(": '{}' is already {} by another input", solved->symbol, at->second));
  }
}

void check_sizes(const Graph& graph, const ValueInfo& input, const TensorType& got,
                 const Bindings& bindings) {
  const Shape expected = input.type.shape.substitute(bindings);
  for (int i = 0; i < expected.rank(); ++i) {
    std::vector<std::string> symbols;
    expected[i].collect_symbols(symbols);
    if (symbols.size() == 1)
      wrong_type(graph, input, got,
                 fmt::format(": no whole '{}' makes {} equal to {}", symbols[0], expected[i].to_string(),
                             got.shape[i].to_string()));
  }
  if (!expected.is_constant())
    fail(
        "the size of '{}' in input '{}' of entry point '{}' does not follow from the inputs: give it by name",
        expected.to_string(), input.name, graph.name());
  if (!(expected == got.shape))
    wrong_type(graph, input, got, fmt::format(", that is {}", expected.to_string()));
}

}  // namespace

Bindings bind_input_types(const Graph& graph, const std::map<std::string, TensorType>& types) {
  check_names(graph, types);
  Bindings bindings;
  for (ValueId id : graph.inputs()) {
    const ValueInfo& input = graph.value(id);
    const auto given = types.find(input.name);
    if (given == types.end())
      fail("input '{}' ({}) of entry point '{}' is missing", input.name, input.type.to_string(),
           graph.name());
    bind_symbols(graph, input, given->second, bindings);
  }
  for (ValueId id : graph.inputs())
    check_sizes(graph, graph.value(id), types.at(graph.value(id).name), bindings);
  return bindings;
}

Bindings bind_inputs(const Graph& graph, const NamedTensors& inputs) {
  std::map<std::string, TensorType> types;
  for (const auto& [name, tensor] : inputs) types.emplace(name, tensor.type());
  check_names(graph, types);  // first, so that an unknown name is reported before a missing buffer
  for (const auto& [name, tensor] : inputs)
    if (tensor.empty_handle())
      fail("the tensor given for input '{}' of entry point '{}' holds no data", name, graph.name());
  return bind_input_types(graph, types);
}

bool has_input(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.inputs(), [&](ValueId id) { return graph.value(id).name == name; });
}

}  // namespace genesis
