#include "tools/viz/data/graph_data.h"

#include <algorithm>

#include "schema/graph/cost_model.h"
#include "tools/viz/data/difference.h"

namespace genesis::viz {
namespace {

// Numbers values as a page does: inputs, states and constants first, then the results of the nodes in order.
class Numbering {
 public:
  explicit Numbering(const Graph& graph) : numbers_(graph.values().size()) {
    for (size_t i = 0; i < numbers_.size(); ++i)
      if (graph.values()[i].kind != ValueKind::kNode) {
        numbers_[i] = next();
        table_.push_back({static_cast<int32_t>(i)});
      }
    table_size_ = next_;
    for (const Node& node : graph.nodes())
      for (const ValueId output : node.outputs) numbers_[static_cast<size_t>(output.index)] = next();
  }
  int32_t operator[](ValueId id) const { return numbers_[static_cast<size_t>(id.index)]; }
  const std::vector<ValueId>& table() const { return table_; }
  // Returns the number as node inputs store it: the distance back from the node's first result, or -1 - number in the
  // table.
  int32_t reference(ValueId input, int32_t first_result) const {
    const int32_t number = (*this)[input];
    return number < table_size_ ? -1 - number : first_result - number;
  }
  int32_t table_size() const { return table_size_; }

 private:
  int32_t next() { return next_++; }
  std::vector<int32_t> numbers_;
  std::vector<ValueId> table_;
  int32_t next_ = 0, table_size_ = 0;
};

Json table_values(const Graph& graph, const Numbering& numbering, Tables& tables) {
  std::vector<int32_t> kind, index, name, type;
  for (const ValueId id : numbering.table()) {
    const ValueInfo& value = graph.value(id);
    kind.push_back(static_cast<int32_t>(value.kind));
    index.push_back(value.index);
    name.push_back(tables.path(value.name));
    type.push_back(tables.type(value.type));
  }
  return {{"kind", kind}, {"index", index}, {"name", deltas(name)}, {"type", type}};
}

int32_t cost_index(const Graph& graph, const Node& node, Tables& tables) {
  try {
    return tables.cost(cost_of(graph, node));
  } catch (const Error&) {  // a size is unknown
    return -1;
  }
}

// Columns of the nodes table. add() appends one node.
struct NodeColumns {
  std::vector<int32_t> op, name, author, attributes, cost, inputs, outputs, input, output_type;

  void add(const Graph& graph, const Node& node, const Numbering& numbering, int32_t first_result,
           Tables& tables) {
    op.push_back(tables.string(node.op->name()));
    name.push_back(tables.path(node.name));
    author.push_back(tables.path(node.authored_name()) - name.back());
    attributes.push_back(tables.attributes(node.attributes));
    inputs.push_back(static_cast<int32_t>(node.inputs.size()));
    outputs.push_back(static_cast<int32_t>(node.outputs.size()));
    for (const ValueId id : node.inputs) input.push_back(numbering.reference(id, first_result));
    for (const ValueId id : node.outputs) output_type.push_back(tables.type(graph.type(id)));
  }
};

}  // namespace

Json graph_data(const Graph& graph, const Graph* sized, Tables& tables) {
  const Numbering numbering(graph);
  Json data{{"values", table_values(graph, numbering, tables)}};
  NodeColumns columns;
  int32_t first_result = numbering.table_size();
  for (const Node& node : graph.nodes()) {
    columns.add(graph, node, numbering, first_result, tables);
    first_result += static_cast<int32_t>(node.outputs.size());
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    columns.cost.push_back(sized ? cost_index(*sized, sized->nodes()[i], tables) : -1);
  data["nodes"] = {{"op", columns.op},         {"name", deltas(columns.name)},
                   {"author", columns.author}, {"attributes", columns.attributes},
                   {"cost", columns.cost},     {"kernel", std::vector<int32_t>(columns.op.size(), -1)},
                   {"inputs", columns.inputs}, {"outputs", columns.outputs}};
  data["input"] = columns.input;
  data["output_type"] = columns.output_type;
  data["outputs"] = data["updates"] = Json::array();
  for (const NamedValue& output : graph.outputs())
    data["outputs"].push_back({output.name, numbering[output.value]});
  for (const StateUpdate& update : graph.updates())
    data["updates"].push_back({update.state, numbering[update.value]});
  return data;
}

namespace {

// Adds to `what` the inputs that come from another node than before. Difference leaves these out.
void add_moved_inputs(const Graph& before, const Node& a, const Graph& after, const Node& b,
                      std::vector<std::string>& what) {
  const auto name = [](const Graph& graph, const Node& node, size_t i) -> std::string {
    if (i >= node.inputs.size()) return "nothing";
    const ValueInfo& value = graph.value(node.inputs[i]);
    return value.kind == ValueKind::kState || value.kind == ValueKind::kConstant ? "" : value.name;
  };
  for (size_t i = 0; i < std::max(a.inputs.size(), b.inputs.size()); ++i) {
    const std::string from = name(before, a, i), to = name(after, b, i);
    if (from != to && !from.empty() && !to.empty())
      what.push_back(fmt::format("input {}: {} -> {}", i, from, to));
  }
}

}  // namespace

Json change_data(const Graph& before, const Graph& after) {
  const Difference difference(before, after);
  std::unordered_map<std::string, size_t> places;  // node index by name, in `before`
  Json added = Json::array(), gone = Json::array(), changed = Json::array();
  for (size_t i = 0; i < before.nodes().size(); ++i) {
    const std::string& name = before.nodes()[i].name;
    places[name] = i;
    if (difference.node(name).change == Change::kGone) gone.push_back(i);
  }
  for (size_t i = 0; i < after.nodes().size(); ++i) {
    const Node& node = after.nodes()[i];
    NodeChange change = difference.node(node.name);
    if (change.change == Change::kAdded) {
      added.push_back(i);
      continue;
    }
    const size_t place = places.at(node.name);
    add_moved_inputs(before, before.nodes()[place], after, node, change.what);
    if (!change.what.empty()) changed.push_back({{"before", place}, {"after", i}, {"what", change.what}});
  }
  return {{"added", added}, {"gone", gone}, {"changed", changed}};
}

bool has_same_nodes(const Graph& a, const Graph& b) {
  return std::ranges::equal(a.nodes(), b.nodes(),
                            [](const Node& x, const Node& y) { return x.name == y.name; });
}

}  // namespace genesis::viz
