#include "schema/graph/bodies.h"

#include <algorithm>
#include <iterator>

namespace genesis {
namespace {

const std::string* body_of(const Node& node) {
  if (!node.op || node.op->name() != "loop") return nullptr;
  return std::get_if<std::string>(node.attributes.find("entry"));
}

void add_bodies(const Model& model, const std::string& name, std::set<std::string>& names) {
  for (const std::string& body : bodies_of(model.entry(name)))
    if (names.insert(body).second) add_bodies(model, body, names);
}

void check_types(const std::string& what, const std::vector<TensorType>& got,
                 const std::vector<TensorType>& expected) {
  if (got.size() != expected.size())
    fail("it has {} {}, the loop gives it {}", got.size(), what, expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(got[i] == expected[i]))
      fail("of its {}, number {} is {}: expected {}, the type that the loop has", what, i, got[i].to_string(),
           expected[i].to_string());
}

size_t number_in(const Node& node, std::string_view name) {
  const auto* number = std::get_if<int64_t>(node.attributes.find(name));
  return number ? static_cast<size_t>(*number) : 0;
}

// A row of what is collected has the type of the whole without its first axis.
TensorType row_of(const TensorType& rows) {
  return {rows.dtype, Shape(std::vector<Dim>(rows.shape.begin() + 1, rows.shape.end()))};
}

void check_signature(const Graph& graph, const Node& node, const Graph& body) {
  const size_t carried = number_in(node, "carried"), collected = number_in(node, "collected");
  const std::vector<TensorType> operands = graph.input_types(node);
  const auto first = operands.begin() + 2, rows = first + static_cast<std::ptrdiff_t>(carried),
             read = rows + static_cast<std::ptrdiff_t>(collected);
  std::vector<TensorType> inputs = {{DType::i64, {}}}, outputs = {{DType::boolean, {}}}, got_in, got_out;
  inputs.insert(inputs.end(), first, rows);
  inputs.insert(inputs.end(), read, operands.end());
  outputs.insert(outputs.end(), first, rows);
  std::transform(rows, read, std::back_inserter(outputs), row_of);
  for (const ValueId id : body.inputs()) got_in.push_back(body.type(id));
  for (const NamedValue& output : body.outputs()) got_out.push_back(body.type(output.value));
  check_types("inputs", got_in, inputs);
  check_types("outputs", got_out, outputs);
}

void check_effects(const Graph& graph, const Graph& body) {
  if (!body.updates().empty())
    fail("it updates the state '{}': expected a body that updates none",
         body.model().state(body.updates()[0].state).name);
  for (const Node& node : body.nodes())
    if (node.op->info.random) fail("its node '{}' draws random numbers: expected none", node.name);
  for (const ValueInfo& value : body.values())
    for (const StateUpdate& update : graph.updates())
      if (value.kind == ValueKind::kState && value.index == update.state)
        fail("it reads the state '{}', which '{}' updates: give the loop its value",
             body.model().state(update.state).name, graph.name());
}

void check_node(const Graph& graph, const Node& node, const std::string& name) {
  const Model& model = graph.model();
  const Graph* body = model.find_entry(name);
  if (!body) fail("the model has no entry point of this name");
  check_signature(graph, node, *body);
  const std::set<std::string> inner = with_bodies(model, {name});
  if (inner.contains(graph.name()) || body == &graph) fail("it runs itself");
  for (const std::string& each : inner) check_effects(graph, model.entry(each));
}

}  // namespace

std::vector<std::string> bodies_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes())
    if (const std::string* name = body_of(node); name && std::ranges::find(names, *name) == names.end())
      names.push_back(*name);
  return names;
}

std::set<std::string> with_bodies(const Model& model, std::set<std::string> names) {
  const std::set<std::string> given = names;
  for (const std::string& name : given) add_bodies(model, name, names);
  return names;
}

void check_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes())
    if (const std::string* name = body_of(node))
      with_context([&] { check_node(graph, node, *name); },
                   [&] { return "in the body '" + *name + "' of node '" + node.name + "'"; });
}

}  // namespace genesis
