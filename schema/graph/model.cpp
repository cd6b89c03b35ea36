#include "schema/graph/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "schema/graph/near_names.h"

namespace genesis {

std::string_view name_of(StateRole role) {
  static constexpr std::string_view kNames[] = {"parameter", "buffer", "optimizer",
                                                "cache",     "random", "step"};
  return kNames[static_cast<size_t>(role)];
}

namespace {

// Returns the first of name, name_1, name_2, ... that is not taken. Tries the first 100 one by one; after that it assumes that
// numbers were assigned in order, and finds a free number after a taken one by doubling and bisection.
std::string unique_among(const std::set<std::string>& names, const std::string& name) {
  constexpr int64_t kMany = 100;
  const auto with = [&](int64_t number) { return name + "_" + std::to_string(number); };
  if (!names.contains(name)) return name;
  int64_t taken = 0, free = 1;
  while (names.contains(with(free))) {
    taken = free;
    free += free < kMany ? 1 : free;
  }
  while (free - taken > 1) {
    const int64_t middle = taken + (free - taken) / 2;
    (names.contains(with(middle)) ? taken : free) = middle;
  }
  return with(free);
}

}  // namespace

Model::Model(const Model& other) { *this = other; }

Model& Model::operator=(const Model& other) {
  if (this == &other) return *this;
  copy_tables(other);
  entries_.clear();
  for (const auto& entry : other.entries_)
    entries_.push_back(std::make_unique<Graph>(copy_graph(*entry, *this)));
  return *this;
}

std::unique_ptr<Model> Model::with_tables_of(const Model& other) {
  auto model = std::make_unique<Model>();
  model->copy_tables(other);
  return model;
}

void Model::describe_as(const Model& other) {
  metadata = other.metadata;
  files = other.files;
}

void Model::copy_tables(const Model& other) {
  describe_as(other);
  tensors_ = other.tensors_;
  tensor_names_ = other.tensor_names_;
  states_ = other.states_;
  state_index_ = other.state_index_;
}

int32_t Model::add_tensor(const std::string& name, Tensor tensor) {
  const auto index = static_cast<int32_t>(tensors_.size());
  std::string unique = unique_among(tensor_names_, name);
  tensor_names_.insert(unique);
  tensors_.push_back({std::move(unique), std::move(tensor)});
  return index;
}

int32_t Model::add_state(State state) {
  if (!state.type.shape.is_constant())
    fail("state '{}' has the symbolic shape {}: states need known sizes", state.name,
         state.type.shape.to_string());
  const auto index = static_cast<int32_t>(states_.size());
  if (!state_index_.try_emplace(state.name, index).second)
    fail("the model already has a state named '{}'", state.name);
  states_.push_back(std::move(state));
  return index;
}

void Model::set_initial(int32_t index, Tensor tensor) {
  State& state = states_[static_cast<size_t>(index)];
  if (!tensor.empty_handle() && !(tensor.type() == state.type))
    fail("state '{}' is {}, the tensor given for it is {}", state.name, state.type.to_string(),
         tensor.type().to_string());
  state.initial = std::move(tensor);
  state.encoded = {};
}

void Model::set_encoded(int32_t index, EncodedValues values) {
  State& state = states_[static_cast<size_t>(index)];
  with_context([&] { check_encoded(values, state.type); }, [&] { return "in state '" + state.name + "'"; });
  state.initial = {};
  state.encoded = std::move(values);
}

void Model::set_trainable(int32_t index, bool trainable) {
  states_[static_cast<size_t>(index)].trainable = trainable;
}

void Model::set_shape(int32_t index, Shape shape) {
  State& state = states_[static_cast<size_t>(index)];
  GENESIS_ASSERT(state.initial.empty_handle() && !state.encoded && shape.is_constant());
  state.type.shape = std::move(shape);
}

Graph& Model::add_entry(const std::string& name) {
  if (find_entry(name)) fail("the model already has an entry point named '{}'", name);
  entries_.push_back(std::make_unique<Graph>(*this, name));
  return *entries_.back();
}

void Model::replace_entry(Graph graph) {
  GENESIS_ASSERT(&graph.model() == this);
  for (auto& entry : entries_)
    if (entry->name() == graph.name()) return void(*entry = std::move(graph));
  entries_.push_back(std::make_unique<Graph>(std::move(graph)));
}

void Model::remove_entry(const std::string& name) {
  std::erase_if(entries_, [&](const auto& entry) { return entry->name() == name; });
}

int32_t Model::find_state(std::string_view name) const {
  const auto at = state_index_.find(name);
  return at == state_index_.end() ? -1 : at->second;
}

const Graph* Model::find_entry(std::string_view name) const {
  for (const auto& entry : entries_)
    if (entry->name() == name) return entry.get();
  return nullptr;
}

const Graph& Model::entry(std::string_view name) const {
  if (const Graph* graph = find_entry(name)) return *graph;
  std::vector<std::string> known;
  for (const auto& entry : entries_) known.push_back(entry->name());
  fail("the model has no entry point '{}'{}; it has: {}", name, did_you_mean(std::string(name), known),
       fmt::join(known, ", "));
}

Graph& Model::entry(std::string_view name) { return const_cast<Graph&>(std::as_const(*this).entry(name)); }

void fail_no_state(const Model& model, const std::string& name) {
  std::vector<std::string> names;
  for (const State& state : model.states()) names.push_back(state.name);
  const std::string near = near_names(name, names);
  fail("the model has no state '{}'{}; `genesis-run info FILE --states` lists them", name,
       near.empty() ? "" : ", but " + near);
}

Graph copy_graph(const Graph& graph, Model& model) { return copy_graph(graph, model, graph.name()); }

Graph copy_graph(const Graph& graph, Model& model, const std::string& name) {
  Graph copy(model, name);
  // Creates values in the original order. Only outputs that set_attributes appended to a node may get other ids.
  std::vector<Value> copies(graph.values().size());
  const auto at = [&](ValueId id) -> Value& { return copies[static_cast<size_t>(id.index)]; };
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const ValueInfo& info = graph.values()[i];
    switch (info.kind) {
      case ValueKind::kInput:
        copies[i] = copy.add_input(info.name, info.type);
        break;
      case ValueKind::kState:
        copies[i] = copy.state(info.index);
        break;
      case ValueKind::kConstant:
        copies[i] = copy.constant(info.index);
        break;
      case ValueKind::kNode: {
        if (info.index != 0) break;  // created together with output 0
        const Node& node = graph.node(info.producer);
        std::vector<Value> inputs;
        for (ValueId id : node.inputs) inputs.push_back(at(id));
        copy.set_origins(node.origins);
        const std::vector<Value> outputs = copy.copy_node(graph, node, inputs);
        for (size_t k = 0; k < outputs.size(); ++k) at(node.outputs[k]) = outputs[k];
        break;
      }
    }
  }
  copy.set_origins({});
  for (const NamedValue& output : graph.outputs()) copy.add_output(output.name, at(output.value));
  for (const StateUpdate& update : graph.updates()) copy.add_update(update.state, at(update.value));
  return copy;
}

}  // namespace genesis
