#include "schema/graph/graph.h"

#include <algorithm>
#include <set>

#include "schema/core/type_limits.h"
#include "schema/graph/model.h"

namespace genesis {
namespace {

// The maps of a graph's contents also hold outputs and updates, so that adding one needs no search through all earlier ones. An output
// may have the same name as a node, so its key begins with a character that names cannot contain.
std::string output_key(const std::string& name) { return "\n" + name; }
std::string output_name(const std::string& node, size_t number) {
  return number == 0 ? node : node + ":" + std::to_string(number);
}

// Returns the key of a state's update in table_values, whose value is then the index of the update. States and constants have
// keys from 0 up.
int64_t update_key(int32_t state) { return -1 - int64_t{state}; }

}  // namespace

const TensorType& Value::type() const {
  if (!graph) fail("an empty value was given where a tensor is needed: it was never assigned");
  return graph->type(id);
}
const std::string& Value::name() const {
  type();
  return graph->value(id).name;
}
const Dim& Value::dim(int64_t axis) const { return shape()[normalize_axis(axis, rank())]; }

Graph Graph::share() const {
  Graph graph(*model_, name_);
  graph.contents_ = contents_;
  return graph;
}

Graph::Contents& Graph::own() {
  if (contents_.use_count() > 1) contents_ = std::make_shared<Contents>(*contents_);
  return *contents_;
}

std::string Graph::scoped(std::string_view name) const {
  const auto is_layer = [](const NamePrefix& scope) { return scope.is_layer; };
  const auto outermost = std::ranges::find_if(scopes_, is_layer);
  const auto innermost = std::find_if(scopes_.rbegin(), scopes_.rend(), is_layer);
  std::string text;
  const auto add = [&](const NamePrefix& scope) {
    if (!scope.name.empty()) text += scope.name + ".";
  };
  std::for_each(scopes_.begin(), outermost, add);
  if (outermost != scopes_.end()) std::for_each(std::prev(innermost.base()), scopes_.end(), add);
  return text += name;
}

std::string Graph::unique_name(const std::string& wanted) {
  auto& names = own().names;
  const auto [at, fresh] = names.try_emplace(wanted, 1);
  if (fresh) return wanted;
  while (true) {
    std::string candidate = wanted + "_" + std::to_string(at->second++);
    if (names.try_emplace(candidate, 1).second) return candidate;
  }
}

ValueId Graph::new_value(ValueInfo info) {
  with_context([&] { check_type(info.type); }, [&] { return "in value '" + info.name + "'"; });
  auto& values = own().values;
  values.push_back(std::move(info));
  return {static_cast<int32_t>(values.size()) - 1};
}

Value Graph::add_input(const std::string& name, TensorType type) {
  if (has_name(name)) fail("entry point '{}' already has a value named '{}'", name_, name);
  const auto number = static_cast<int32_t>(inputs().size());
  const ValueId id = new_value({std::move(type), ValueKind::kInput, number, {}, unique_name(name)});
  own().inputs.push_back(id);
  return handle(id);
}

Value Graph::state(int32_t index) {
  const auto [at, fresh] = own().table_values.try_emplace(2 * int64_t{index});
  if (fresh) {
    const State& state = model_->state(index);
    at->second = new_value({state.type, ValueKind::kState, index, {}, unique_name(state.name)});
  }
  return handle(at->second);
}

Value Graph::constant(int32_t tensor) {
  const auto [at, fresh] = own().table_values.try_emplace(2 * int64_t{tensor} + 1);
  if (fresh) {
    const NamedTensor& row = model_->tensors()[static_cast<size_t>(tensor)];
    at->second = new_value({row.tensor.type(), ValueKind::kConstant, tensor, {}, unique_name(row.name)});
  }
  return handle(at->second);
}

void Graph::append_outputs(NodeId id, const std::vector<TensorType>& types) {
  Node& node = own().nodes[static_cast<size_t>(id.index)];
  for (size_t i = node.outputs.size(); i < types.size(); ++i) {
    const ValueInfo output{types[i], ValueKind::kNode, static_cast<int32_t>(i), id,
                           output_name(node.name, i)};
    node.outputs.push_back(new_value(output));
  }
}

std::vector<Value> Graph::add_node(const OpDef& op, const Attributes& attributes,
                                   const std::vector<Value>& inputs, std::string name) {
  if (name.empty()) name = scoped(op.name());
  Node node{.op = &op, .attributes = {}, .inputs = {}, .outputs = {}, .name = {}, .origins = origins_};
  std::vector<TensorType> input_types, types;
  with_context(
      [&] {
        for (const Value& input : inputs) {
          if (!input) fail("an input of '{}' is an empty value", op.name());
          if (input.graph != this) fail("an input of '{}' belongs to another graph", op.name());
          node.inputs.push_back(input.id);
          input_types.push_back(input.type());
        }
        node.attributes = op.canonical(attributes);
        types = infer_types(op, node.attributes, input_types);
      },
      [&] { return fmt::format("while adding node '{}' ({})", name, op.name()); });
  return append_node(std::move(node), name, types);
}

std::vector<Value> Graph::append_node(Node node, const std::string& name,
                                      const std::vector<TensorType>& types) {
  node.name = unique_name(name);
  const NodeId id{static_cast<int32_t>(nodes().size())};
  own().nodes.push_back(std::move(node));
  append_outputs(id, types);
  std::vector<Value> outputs;
  for (ValueId output : nodes().back().outputs) outputs.push_back(handle(output));
  return outputs;
}

std::vector<Value> Graph::copy_node(const Graph& from, const Node& node, const std::vector<Value>& inputs) {
  const auto same_type = [&](const Value& mine, ValueId other) {
    return mine.graph == this && mine.type() == from.type(other);
  };
  if (!std::ranges::equal(inputs, node.inputs, same_type))
    return add_node(*node.op, node.attributes, inputs, node.name);
  Node copy{.op = node.op,
            .attributes = node.attributes,
            .inputs = {},
            .outputs = {},
            .name = {},
            .origins = origins_};
  copy.inputs.reserve(inputs.size());
  for (const Value& input : inputs) copy.inputs.push_back(input.id);
  copy.name = unique_name(node.name);
  const NodeId id{static_cast<int32_t>(nodes().size())};
  Contents& contents = own();
  Node& made = contents.nodes.emplace_back(std::move(copy));
  std::vector<Value> outputs;
  outputs.reserve(node.outputs.size());
  made.outputs.reserve(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    made.outputs.push_back({static_cast<int32_t>(contents.values.size())});
    contents.values.push_back({from.type(node.outputs[i]), ValueKind::kNode, static_cast<int32_t>(i), id,
                               output_name(made.name, i)});
    outputs.push_back(handle(made.outputs.back()));
  }
  return outputs;
}

void Graph::set_attributes(NodeId id, const Attributes& attributes) {
  Node& node = own().nodes[static_cast<size_t>(id.index)];
  const Attributes canonical = node.op->canonical(attributes);
  const std::vector<TensorType> types = infer_types(*node.op, canonical, input_types(node));
  GENESIS_ASSERT(types.size() >= node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) GENESIS_ASSERT(type(node.outputs[i]) == types[i]);
  node.attributes = canonical;
  append_outputs(id, types);
}

void Graph::add_output(const std::string& name, Value value) {
  if (!value) fail("output '{}' of entry point '{}' is an empty value", name, name_);
  if (value.graph != this) fail("output '{}' of entry point '{}' belongs to another graph", name, name_);
  const auto same_name = [&](const NamedValue& output) { return output.name == name; };
  if (!own().names.try_emplace(output_key(name), 1).second && std::ranges::any_of(outputs(), same_name))
    fail("entry point '{}' already has an output named '{}'", name_, name);
  own().outputs.push_back({name, value.id});
}

namespace {

bool is_made_from(const Graph& graph, ValueId value, ValueId source) {
  std::set<ValueId> seen = {value};
  for (std::vector<ValueId> open = {value}; !open.empty();) {
    const ValueId at = open.back();
    open.pop_back();
    if (at == source) return true;
    if (graph.value(at).kind != ValueKind::kNode || at < source) continue;  // values depend on older ones
    for (ValueId input : graph.node(graph.value(at).producer).inputs)
      if (seen.insert(input).second) open.push_back(input);
  }
  return false;
}

}  // namespace

// A second update of a state replaces the first, but must depend on its value: it may not drop it.
void Graph::add_update(int32_t state, Value value) {
  const State& target = model_->state(state);
  if (!value) fail("the new value of state '{}' is an empty value", target.name);
  if (value.graph != this) fail("the new value of state '{}' belongs to another graph", target.name);
  if (!(value.type() == target.type))
    fail("state '{}' is {}, its new value '{}' is {}", target.name, target.type.to_string(), value.name(),
         value.type().to_string());
  Contents& contents = own();
  const ValueId next{static_cast<int32_t>(contents.updates.size())};
  const auto [at, fresh] = contents.table_values.try_emplace(update_key(state), next);
  if (fresh) return void(contents.updates.push_back({state, value.id}));
  StateUpdate& update = contents.updates[static_cast<size_t>(at->second.index)];
  if (value.id == update.value || !is_made_from(*this, value.id, update.value))
    fail("entry point '{}' updates state '{}' twice, the second time without reading '{}'", name_,
         target.name, this->value(update.value).name);
  update.value = value.id;
}

Value Graph::input(std::string_view name) {
  for (ValueId id : inputs())
    if (value(id).name == name) return handle(id);
  std::string known;
  for (ValueId id : inputs()) known += (known.empty() ? "" : ", ") + value(id).name;
  fail("entry point '{}' has no input '{}'; it has: {}", name_, name, known);
}

Value Graph::output(std::string_view name) {
  for (const NamedValue& output : outputs())
    if (output.name == name) return handle(output.value);
  std::string known;
  for (const NamedValue& output : outputs()) known += (known.empty() ? "" : ", ") + output.name;
  fail("entry point '{}' has no output '{}'; it has: {}", name_, name, known);
}

std::vector<TensorType> Graph::input_types(const Node& node) const {
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) types.push_back(type(id));
  return types;
}

std::vector<TensorType> Graph::output_types(const Node& node) const {
  std::vector<TensorType> types;
  for (ValueId id : node.outputs) types.push_back(type(id));
  return types;
}

std::vector<Value> emit_node(const OpDef& op, const Attributes& attributes,
                             const std::vector<Value>& inputs) {
  for (const Value& input : inputs)
    if (input) return input.graph->add_node(op, attributes, inputs);
  fail("op '{}' was given {}", op.name(),
       inputs.empty() ? "no value to work on" : "an empty value: it was never assigned");
}

}  // namespace genesis
