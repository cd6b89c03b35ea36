// The graph of one entry point, in SSA form: nodes are in topological order, values never change, nothing is ever removed. A pass
// writes a new graph (passes/core/rewriter.h); only the author's builder and passes add to one.
//
// A state is read as a value, and written by an update: a pair (state, new value) declared beside the outputs. There are
// therefore no side effects, and the memory planner decides whether an update happens in place.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/graph/op.h"

namespace genesis {

class Graph;
class Model;

struct NodeId {
  int32_t index = -1;
  auto operator<=>(const NodeId&) const = default;
};
struct ValueId {
  int32_t index = -1;
  auto operator<=>(const ValueId&) const = default;
};

// An author's handle of a value of a graph. Small, copied freely; empty when default-constructed. The operators, == among them,
// compute with elements (schema/ops/elementwise/elementwise.h); is() compares handles.
struct Value {
  Graph* graph = nullptr;
  ValueId id;

  explicit operator bool() const { return graph != nullptr; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return shape().rank(); }
  const Dim& dim(int64_t axis) const;  // a negative axis counts from the end
  const Dim& size(int64_t axis) const { return dim(axis); }
  const std::string& name() const;
  bool is(const Value& other) const { return graph == other.graph && id == other.id; }
};

enum class ValueKind : uint8_t { kInput, kState, kConstant, kNode };

struct ValueInfo {
  TensorType type;
  ValueKind kind = ValueKind::kInput;
  int32_t index = 0;  // input: its number; state or tensor: its index in the model; node: the output's number
  NodeId producer;    // kNode only
  std::string name;   // unique in the graph; output k > 0 of a node is "<node>:k"
};

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;  // canonical: contains every attribute
  std::vector<ValueId> inputs, outputs;
  std::string name;  // unique in the graph, '.'-separated scopes: "layers.3.mlp.gate_proj"
  std::vector<std::string>
      origins;  // names of the author's nodes from which this one was made, newest last; empty: itself

  // Returns the author's name for errors, profiles and pictures.
  const std::string& authored_name() const { return origins.empty() ? name : origins.front(); }
};

struct NamedValue {
  std::string name;
  ValueId value;
  bool operator==(const NamedValue&) const = default;
};
struct StateUpdate {
  int32_t state;
  ValueId value;
  bool operator==(const StateUpdate&) const = default;
};

class Graph {
 public:
  // `model` owns the tables of states and tensors and must outlive the graph.
  Graph(Model& model, std::string name)
      : model_(&model), name_(std::move(name)), contents_(std::make_shared<Contents>()) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = default;  // invalidates Value handles into it
  Graph& operator=(Graph&&) = default;
  // Returns a graph of the same model with the same contents, ids among them. The first of the two that grows copies them, so a pass
  // that changes nothing costs nothing.
  Graph share() const;
  bool shares_with(const Graph& other) const { return contents_ == other.contents_; }

  Model& model() const { return *model_; }
  const std::string& name() const { return name_; }

  // --- building ---
  Value add_input(const std::string& name, TensorType type);
  Value state(int32_t index);      // the state's value at the start of a run; one value per state
  Value constant(int32_t tensor);  // a tensor of the model's table; one value per tensor
  // Infers the types at once; throws Error naming the node. `name` is made unique; if empty, it is the scope and the op's name.
  std::vector<Value> add_node(const OpDef& op, const Attributes& attributes, const std::vector<Value>& inputs,
                              std::string name = "");
  // Adds a node with the op, attributes and name of a node of `from`. Types are inferred only where those of its inputs differ.
  std::vector<Value> copy_node(const Graph& from, const Node& node, const std::vector<Value>& inputs);
  void add_output(const std::string& name, Value value);
  void add_update(int32_t state, Value value);
  // Replaces a node's attributes and infers its types again. Existing outputs keep their types; new ones may appear at the end
  // (an attention node adds its row statistics when a gradient needs them).
  void set_attributes(NodeId node, const Attributes& attributes);

  // Begins a name scope for the nodes added from now on.
  void push_scope(const std::string& name) { scopes_.push_back({name, false}); }
  // Begins the scope of a layer, which knows its whole path: inside another layer it replaces that layer's path. An empty path
  // adds nothing.
  void push_layer_scope(const std::string& path) { scopes_.push_back({path, true}); }
  void pop_scope() { scopes_.pop_back(); }
  std::string scoped(std::string_view name) const;  // "layers.3." + name
  bool has_name(const std::string& name) const { return contents_->names.contains(name); }  // input or node
  // Selects the behavior of layers that differ in training (dropout, batch norm) while an author builds this graph. Not stored.
  void set_training(bool training) { training_ = training; }
  bool training() const { return training_; }
  // Sets the origins of nodes added from now on: a pass sets them to the origins of the node it rewrites.
  void set_origins(std::vector<std::string> origins) { origins_ = std::move(origins); }

  // --- reading ---
  // Deques keep references to their elements valid while the graph grows, unless it shares its contents: then its first change copies
  // them, and references stay with the other graph's.
  const std::deque<Node>& nodes() const { return contents_->nodes; }
  const std::deque<ValueInfo>& values() const { return contents_->values; }
  const Node& node(NodeId id) const { return nodes()[static_cast<size_t>(id.index)]; }
  const ValueInfo& value(ValueId id) const { return values()[static_cast<size_t>(id.index)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const std::vector<ValueId>& inputs() const { return contents_->inputs; }
  const std::vector<NamedValue>& outputs() const { return contents_->outputs; }
  const std::vector<StateUpdate>& updates() const { return contents_->updates; }
  Value handle(ValueId id) { return {this, id}; }
  Value input(std::string_view name);   // throws Error naming the inputs there are
  Value output(std::string_view name);  // throws Error naming the outputs there are
  std::vector<TensorType> input_types(const Node& node) const;
  std::vector<TensorType> output_types(const Node& node) const;

 private:
  struct Contents {
    std::deque<Node> nodes;
    std::deque<ValueInfo> values;
    std::vector<ValueId> inputs;
    std::vector<NamedValue> outputs;
    std::vector<StateUpdate> updates;
    std::unordered_map<std::string, int> names;         // name -> next suffix to try
    std::unordered_map<int64_t, ValueId> table_values;  // states and constants already read
  };

  Contents& own();  // may be changed: no other graph has them
  ValueId new_value(ValueInfo info);
  std::string unique_name(const std::string& wanted);
  void append_outputs(NodeId id, const std::vector<TensorType>& types);
  std::vector<Value> append_node(Node node, const std::string& name, const std::vector<TensorType>& types);

  Model* model_;
  std::string name_;
  std::shared_ptr<Contents> contents_;  // shared with what share() returned; null only after a move
  struct NamePrefix {
    std::string name;
    bool is_layer;
  };
  std::vector<NamePrefix> scopes_;
  bool training_ = false;
  std::vector<std::string> origins_;
};

// While it lives, nodes are added under the scope `name`.
class NameScope {
 public:
  NameScope(Graph& graph, const std::string& name) : graph_(graph) { graph_.push_scope(name); }
  ~NameScope() { graph_.pop_scope(); }
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  Graph& graph_;
};

// Adds a node to the graph of its inputs and returns its outputs.
std::vector<Value> emit_node(const OpDef& op, const Attributes& attributes, const std::vector<Value>& inputs);

// The same for an op given as its struct of rules and attributes; emit() is for ops with one output.
template <class Op>
std::vector<Value> emit_node(const Op& op, const std::vector<Value>& inputs) {
  return emit_node(kOpDef<Op>, to_attributes(op), inputs);
}
template <class Op>
Value emit(const Op& op, const std::vector<Value>& inputs) {
  return emit_node(op, inputs)[0];
}

}  // namespace genesis
