#include "schema/graph/verify.h"

#include <string_view>
#include <unordered_set>

#include "schema/core/type_limits.h"
#include "schema/graph/bodies.h"
#include "schema/graph/caches.h"
#include "schema/graph/state_storage.h"

namespace genesis {
namespace {

template <class Rows>
bool in_range(int32_t index, const Rows& rows) {
  return index >= 0 && static_cast<size_t>(index) < rows.size();
}

void check_same_type(const TensorType& got, const TensorType& expected, std::string_view what) {
  if (!(got == expected)) fail("its type is {}, {} is {}", got.to_string(), what, expected.to_string());
}

void check_data(const Tensor& tensor) {
  check_type(tensor.type());
  if (!tensor.type().shape.is_constant())
    fail("it has the symbolic shape {}: data needs known sizes", tensor.type().shape.to_string());
  if (tensor.data() == nullptr && tensor.bytes() > 0) fail("it has no data");
}

// Collects names; empty names and repeats are errors.
class Names {
 public:
  explicit Names(std::string_view what) : what_(what) {}
  void add(const std::string& name) {
    if (name.empty()) fail("{} has an empty name", what_);
    if (!seen_.insert(name).second) fail("{} '{}' appears twice", what_, name);
  }

 private:
  std::string_view what_;
  std::unordered_set<std::string_view> seen_;
};

[[noreturn]] void fail_encoded_update(const State& state) {
  fail(
      "state '{}' is kept as {}, and an update would write it: train the model before it is quantized, or "
      "train other states beside this one",
      state.name, state.encoded.format->name);
}

class GraphChecker {
 public:
  explicit GraphChecker(const Graph& graph) : graph_(graph), model_(graph.model()) {}

  void check() {
    check_inputs();
    for (size_t i = 0; i < graph_.values().size(); ++i) check_value({static_cast<int32_t>(i)});
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      with_context([&] { check_node(id); }, [&] { return "in node '" + graph_.node(id).name + "'"; });
    }
    check_outputs();
    check_updates();
    check_total_bytes(graph_);
  }

 private:
  void check_inputs() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      if (!in_range(id.index, graph_.values()))
        fail("input {} is value {}, which does not exist", i, id.index);
      const ValueInfo& value = graph_.value(id);
      if (value.kind != ValueKind::kInput || value.index != static_cast<int32_t>(i))
        fail("input {} is value '{}', which is not that input", i, value.name);
    }
  }

  void check_value(ValueId id) {
    const ValueInfo& value = graph_.value(id);
    value_names_.add(value.name);
    with_context(
        [&] {
          check_type(value.type);
          check_origin(id, value);
        },
        [&] { return "in value '" + value.name + "'"; });
  }

  // Checks that a value is what its kind says.
  void check_origin(ValueId id, const ValueInfo& value) {
    switch (value.kind) {
      case ValueKind::kInput:
        if (!in_range(value.index, graph_.inputs()) ||
            graph_.inputs()[static_cast<size_t>(value.index)] != id)
          fail("it says it is input {}, which it is not", value.index);
        return;
      case ValueKind::kState:
        if (!in_range(value.index, model_.states())) fail("there is no state {}", value.index);
        return check_same_type(value.type, model_.state(value.index).type, "the state");
      case ValueKind::kConstant:
        if (!in_range(value.index, model_.tensors())) fail("there is no tensor {}", value.index);
        return check_same_type(value.type, model_.tensors()[static_cast<size_t>(value.index)].tensor.type(),
                               "the tensor");
      case ValueKind::kNode:
        if (!in_range(value.producer.index, graph_.nodes()))
          fail("there is no node {}", value.producer.index);
        if (const Node& node = graph_.node(value.producer);
            !in_range(value.index, node.outputs) || node.outputs[static_cast<size_t>(value.index)] != id)
          fail("it says it is output {} of node '{}', which it is not", value.index, node.name);
        return;
    }
    fail("its kind {} is unknown", static_cast<int>(value.kind));
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    node_names_.add(node.name);
    if (node.op == nullptr) fail("it has no op");
    for (ValueId input : node.inputs) check_operand(id, input);
    if (!(node.op->canonical(node.attributes) == node.attributes)) fail("its attributes are not complete");
    const std::vector<TensorType> types = infer_types(*node.op, node.attributes, graph_.input_types(node));
    if (types.size() != node.outputs.size())
      fail("it has {} outputs, op '{}' gives {}", node.outputs.size(), node.op->name(), types.size());
    for (size_t i = 0; i < types.size(); ++i) check_result(id, i, types[i]);
  }

  void check_operand(NodeId id, ValueId input) {
    if (!in_range(input.index, graph_.values()))
      fail("an input is value {}, which does not exist", input.index);
    const ValueInfo& value = graph_.value(input);
    if (value.kind == ValueKind::kNode && value.producer >= id)
      fail("its input '{}' is made by a later node: the order is not topological", value.name);
  }

  void check_result(NodeId id, size_t i, const TensorType& expected) {
    const ValueId output = graph_.node(id).outputs[i];
    if (!in_range(output.index, graph_.values()))
      fail("output {} is value {}, which does not exist", i, output.index);
    const ValueInfo& value = graph_.value(output);
    if (value.kind != ValueKind::kNode || value.producer != id || value.index != static_cast<int32_t>(i))
      fail("output {} is value '{}', which belongs to something else", i, value.name);
    check_same_type(value.type, expected, "the inferred type");
  }

  void check_outputs() {
    Names names("output");
    for (const NamedValue& output : graph_.outputs()) {
      names.add(output.name);
      if (!in_range(output.value.index, graph_.values()))
        fail("output '{}' is value {}, which does not exist", output.name, output.value.index);
    }
  }

  void check_updates() {
    Names names("update of state");
    for (const StateUpdate& update : graph_.updates()) {
      if (!in_range(update.state, model_.states()))
        fail("it updates state {}, which does not exist", update.state);
      const State& state = model_.state(update.state);
      names.add(state.name);
      if (!in_range(update.value.index, graph_.values()))
        fail("the update of state '{}' is value {}, which does not exist", state.name, update.value.index);
      if (state.encoded) fail_encoded_update(state);
      with_context([&] { check_same_type(graph_.type(update.value), state.type, "the state"); },
                   [&] { return "in the update of state '" + state.name + "'"; });
    }
  }

  const Graph& graph_;
  const Model& model_;
  Names value_names_{"value"}, node_names_{"node"};
};

void check_state(const State& state) {
  check_type(state.type);
  if (static_cast<int>(state.role) > static_cast<int>(StateRole::kStep))
    fail("its role {} is unknown", static_cast<int>(state.role));
  if (!state.type.shape.is_constant())
    fail("it has the symbolic shape {}: states need known sizes", state.type.shape.to_string());
  if (state.cache) check_cache_layout(*state.cache, state.role, state.type);
  if (state.encoded) {
    check_encoded(state.encoded, state.type);
    if (state.trainable)
      fail("it is kept as {}, which no training can change: it must not be trainable",
           state.encoded.format->name);
  }
  if (state.initial.empty_handle()) return;
  check_data(state.initial);
  check_same_type(state.initial.type(), state.type, "the state");
}

}  // namespace

void check_total_bytes(const Graph& graph) {
  int64_t total = 0;
  for (const ValueInfo& value : graph.values()) {
    if (value.type.shape.is_constant()) total += value.type.bytes();
    if (total > kMaxEntryBytes)
      fail(
          "the values of entry point '{}' take more than {} bytes together, up to '{}' ({}): use smaller "
          "sizes",
          graph.name(), kMaxEntryBytes, value.name, value.type.to_string());
  }
}

void verify(const Graph& graph) {
  with_context([&] { GraphChecker(graph).check(); }, [&] { return "in entry point '" + graph.name() + "'"; });
}

void verify(const Model& model) {
  Names tensors("tensor"), states("state"), entries("entry point");
  for (const NamedTensor& row : model.tensors()) {
    tensors.add(row.name);
    with_context([&] { check_data(row.tensor); }, [&] { return "in tensor '" + row.name + "'"; });
  }
  int64_t state_bytes = 0;
  for (const State& state : model.states()) {
    states.add(state.name);
    with_context([&] { check_state(state); }, [&] { return "in state '" + state.name + "'"; });
    state_bytes += state.type.bytes();
    if (state_bytes > kMaxEntryBytes)
      fail("the states take more than {} bytes together, up to '{}'", kMaxEntryBytes, state.name);
  }
  for (const auto& entry : model.entries()) {
    entries.add(entry->name());
    if (&entry->model() != &model) fail("entry point '{}' belongs to another model", entry->name());
    verify(*entry);
  }
  for (const auto& entry : model.entries())
    with_context([&] { check_bodies(*entry); }, [&] { return "in entry point '" + entry->name() + "'"; });
}

}  // namespace genesis
