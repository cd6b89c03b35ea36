#include "passes/core/rewriter.h"

#include <algorithm>
#include <unordered_set>

#include "passes/core/analysis.h"

namespace genesis::passes {
namespace {

std::vector<TensorType> input_types_of(const Graph& graph) {
  std::vector<TensorType> types;
  for (ValueId id : graph.inputs()) types.push_back(graph.type(id));
  return types;
}

// "layers.3.mlp.act" -> "layers.3.mlp"
std::string parent_scope(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

}  // namespace

std::vector<std::string> origins_of(const Node& node) {
  return node.origins.empty() ? std::vector<std::string>{node.name} : node.origins;
}

Rewriter::Rewriter(const Graph& old) : Rewriter(old, input_types_of(old)) {}

Rewriter::Rewriter(const Graph& old, const std::vector<TensorType>& input_types)
    : old_(old), graph_(old.model(), old.name()), new_values_(old.values().size()) {
  GENESIS_ASSERT(input_types.size() == old.inputs().size());
  for (size_t i = 0; i < input_types.size(); ++i) {
    const ValueId id = old.inputs()[i];
    new_values_[static_cast<size_t>(id.index)] = graph_.add_input(old.value(id).name, input_types[i]);
  }
}

size_t Rewriter::catch_up() {
  if (!visited_) return caught_up_at_;
  const size_t visited = *visited_;
  visited_.reset();
  is_unchanged_ = false;
  while (next_ < visited) copy(old_.nodes()[next_++]);
  caught_up_at_ = graph_.nodes().size();
  begin_nodes_from({&old_.nodes()[visited]});
  next_ = visited + 1;  // the visit ends with a copy of it, or with what replaces it
  return caught_up_at_;
}

bool Rewriter::end_visit() {
  if (visited_) return visited_.reset(), false;
  end_nodes_from();
  return true;
}

Value Rewriter::map(ValueId id) {
  catch_up();
  Value& value = new_values_[static_cast<size_t>(id.index)];
  if (!value) {
    const ValueInfo& info = old_.value(id);
    if (info.kind == ValueKind::kState) value = graph_.state(info.index);
    if (info.kind == ValueKind::kConstant) value = graph_.constant(info.index);
  }
  GENESIS_ASSERT(value);
  return value;
}

std::vector<Value> Rewriter::map(const std::vector<ValueId>& ids) {
  std::vector<Value> values;
  values.reserve(ids.size());
  for (ValueId id : ids) values.push_back(map(id));
  return values;
}

void Rewriter::copy(const Node& node) {
  const auto add = [&](const std::vector<Value>& inputs) { return graph_.copy_node(old_, node, inputs); };
  copy_by(node, add);
}

void Rewriter::copy_with(const Node& node, const Attributes& attributes) {
  const auto add = [&](const std::vector<Value>& inputs) {
    return graph_.add_node(*node.op, attributes, inputs, node.name);
  };
  copy_by(node, add);
}

void Rewriter::copy_by(const Node& node,
                       const std::function<std::vector<Value>(const std::vector<Value>&)>& add) {
  catch_up();
  // If a node that the pass added has this name already, the copy gets another name and keeps this one as its origin.
  graph_.set_origins(graph_.has_name(node.name) ? origins_of(node) : node.origins);
  const std::vector<Value> outputs = add(map(node.inputs));
  graph_.set_origins({});
  log_.forget_sources();
  map_outputs(node, outputs);
}

void Rewriter::replace(const Node& node, const std::vector<Value>& values) {
  catch_up();
  log_.replaced(old_, graph_, node, values);
  map_outputs(node, values);
}

void Rewriter::map_outputs(const Node& node, const std::vector<Value>& values) {
  GENESIS_ASSERT(values.size() >= node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i)
    new_values_[static_cast<size_t>(node.outputs[i].index)] = values[i];
}

void Rewriter::begin_nodes_from(const std::vector<const Node*>& nodes) {
  GENESIS_ASSERT(!in_scope_);
  log_.add_sources(old_, graph_, nodes);
  std::vector<std::string> origins;
  std::unordered_set<std::string> seen;
  for (const Node* node : nodes)
    for (std::string& name : origins_of(*node))
      if (seen.insert(name).second) origins.push_back(std::move(name));
  graph_.set_origins(std::move(origins));
  if (const std::string scope = parent_scope(nodes.back()->name); !scope.empty()) {
    graph_.push_scope(scope);
    in_scope_ = true;
  }
}

void Rewriter::end_nodes_from() {
  graph_.set_origins({});
  if (in_scope_) graph_.pop_scope();
  in_scope_ = false;
}

Graph Rewriter::finish() {
  if (next_ > 0)
    while (next_ < old_.nodes().size()) copy(old_.nodes()[next_++]);
  for (const NamedValue& output : old_.outputs()) graph_.add_output(output.name, map(output.value));
  for (const StateUpdate& update : old_.updates())
    if (!dropped_updates_.contains(update.state)) graph_.add_update(update.state, map(update.value));
  return std::move(graph_);
}

namespace {

bool has_known_sizes(const std::vector<TensorType>& types) {
  return std::ranges::all_of(types, [](const TensorType& t) { return t.shape.is_constant(); });
}

bool can_run(const Target& target, const Graph& graph, const Node& node) {
  const std::vector<TensorType> inputs = graph.input_types(node), outputs = graph.output_types(node);
  if (!has_known_sizes(inputs) || !has_known_sizes(outputs)) return true;
  const bool is_view = node.op->view_offset && node.op->view_offset(node.attributes, inputs);
  return is_view || target.runs(target.query(*node.op, node.attributes, inputs, outputs));
}

// Returns whether the target can run every node with index `first` or higher.
bool can_run_all(const Target* target, const Graph& graph, size_t first) {
  if (target == nullptr || target->can_run == nullptr) return true;
  const auto& nodes = graph.nodes();
  return std::all_of(nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.end(),
                     [&](const Node& node) { return can_run(*target, graph, node); });
}

}  // namespace

Graph rewrite(const Graph& graph, const std::function<Replacement(Rewriter&, const Node&)>& visit,
              const Target* target) {
  Rewriter rewriter(graph);
  bool left_over = false;  // some nodes may have no reader
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    rewriter.begin_visit(i);
    const Replacement values = with_context([&] { return visit(rewriter, node); },
                                            [&] { return "while rewriting node '" + node.name + "'"; });
    if (values) rewriter.catch_up();
    if (!rewriter.end_visit()) continue;
    const size_t before = rewriter.catch_up();
    left_over |= values || rewriter.graph().nodes().size() > before;
    if (values && can_run_all(target, rewriter.graph(), before))
      rewriter.replace(node, *values);
    else
      rewriter.copy(node);
  }
  if (rewriter.is_unchanged()) return graph.share();
  Graph result = rewriter.finish();
  return left_over ? without_dead_nodes(result) : std::move(result);
}

Graph rewrite(const Graph& graph, Replacement (*visit)(Rewriter&, const Uses&, const Node&),
              const Target* target) {
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return visit(rewriter, uses, node); }, target);
}

namespace {

// Returns whether something reads every state and constant that the graph has as a value.
bool reads_all_values(const Graph& graph) {
  std::vector<bool> is_read(graph.values().size());
  const auto read = [&](ValueId id) { is_read[static_cast<size_t>(id.index)] = true; };
  for (const Node& node : graph.nodes()) std::ranges::for_each(node.inputs, read);
  for (const NamedValue& output : graph.outputs()) read(output.value);
  for (const StateUpdate& update : graph.updates()) read(update.value);
  for (size_t i = 0; i < is_read.size(); ++i)
    if (const ValueKind kind = graph.values()[i].kind;
        kind == ValueKind::kState || kind == ValueKind::kConstant)
      if (!is_read[i]) return false;
  return true;
}

}  // namespace

Graph without_dead_nodes(const Graph& graph) {
  const std::vector<bool> live = live_nodes(graph);
  if (std::ranges::find(live, false) == live.end() && reads_all_values(graph)) return graph.share();
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    if (live[i]) rewriter.copy(graph.nodes()[i]);
  return rewriter.finish();
}

bool same_graph(const Graph& a, const Graph& b) {
  if (a.shares_with(b)) return true;
  // Values are equal if they have the same name: names are unique in a graph.
  // A pass has made `b`, which may be broken.
  const auto is_value = [](const Graph& graph, ValueId id) {
    return id.index >= 0 && static_cast<size_t>(id.index) < graph.values().size();
  };
  const auto same_value = [&](ValueId x, ValueId y) {
    return is_value(a, x) && is_value(b, y) && a.value(x).name == b.value(y).name;
  };
  const auto same_values = [&](const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    return std::ranges::equal(x, y, same_value);
  };
  const auto same_input = [&](ValueId x, ValueId y) { return same_value(x, y) && a.type(x) == b.type(y); };
  const auto same_node = [&](const Node& x, const Node& y) {
    return x.op == y.op && x.name == y.name && x.attributes == y.attributes && x.origins == y.origins &&
           same_values(x.inputs, y.inputs) && x.outputs.size() == y.outputs.size();
  };
  const auto same_output = [&](const NamedValue& x, const NamedValue& y) {
    return x.name == y.name && same_value(x.value, y.value);
  };
  const auto same_update = [&](const StateUpdate& x, const StateUpdate& y) {
    return x.state == y.state && same_value(x.value, y.value);
  };
  const auto equal = [](const auto& x, const auto& y, const auto& same) {
    return std::ranges::equal(x, y, same);
  };
  return equal(a.inputs(), b.inputs(), same_input) && equal(a.nodes(), b.nodes(), same_node) &&
         equal(a.outputs(), b.outputs(), same_output) && equal(a.updates(), b.updates(), same_update);
}

}  // namespace genesis::passes
