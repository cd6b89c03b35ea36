// A Model: one table of tensors, one table of states, and the entry points (graphs) that share them. Copying
// a model copies its graphs and shares its bytes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/encoding/state_format.h"
#include "schema/graph/graph.h"

namespace genesis {

// Numbers are written in files: append only.
enum class StateRole : uint8_t {
  kParameter = 0,
  kBuffer = 1,
  kOptimizer = 2,
  kCache = 3,
  kRandom = 4,
  kStep = 5
};
std::string_view name_of(StateRole role);

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Memory that outlives a run. A parameter has values to start from; without them a state starts as zeros.
// initial_value() (schema/graph/state_storage.h) gives the tensor, however it is kept.
struct State {
  std::string name;  // state_dict style: "layers.0.self_attn.q_proj.weight"
  TensorType type;   // known sizes
  StateRole role = StateRole::kParameter;
  bool trainable = false;
  Tensor initial;              // empty_handle(): zeros, unless it is encoded
  EncodedValues encoded = {};  // instead of `initial`
};

class Model {
 public:
  Model() = default;
  Model(const Model& other);
  Model& operator=(const Model& other);
  // A model with the tables and metadata of `other` and no entry points: what a pass pipeline works in.
  static std::unique_ptr<Model> with_tables_of(const Model& other);
  // Graphs point at their model, so a model does not move: hold it by unique_ptr or shared_ptr, or copy it.

  int32_t add_tensor(const std::string& name, Tensor tensor);  // name made unique
  int32_t add_state(State state);                              // throws Error when the name is taken
  void set_initial(int32_t state, Tensor tensor);              // throws Error when the type differs
  // The state starts from these, which it is kept as from now on. Throws Error when they are no such type's.
  void set_encoded(int32_t state, EncodedValues values);
  void set_trainable(int32_t state, bool trainable);
  Graph& add_entry(const std::string& name);  // throws Error when the name is taken
  void replace_entry(Graph graph);            // by the graph's name; adds it when new
  void remove_entry(const std::string& name);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::vector<State>& states() const { return states_; }
  const State& state(int32_t index) const { return states_[static_cast<size_t>(index)]; }
  int32_t find_state(std::string_view name) const;  // -1 when there is none
  const std::vector<std::unique_ptr<Graph>>& entries() const { return entries_; }
  const Graph* find_entry(std::string_view name) const;  // null when there is none
  const Graph& entry(std::string_view name) const;       // throws Error naming the entry points there are
  Graph& entry(std::string_view name);

  // Takes what `other` says about itself: metadata and files.
  void describe_as(const Model& other);

  // Free-form facts: "architecture", "config" (JSON), ...
  std::map<std::string, std::string> metadata;
  // Files that travel with the model unread, by their name, each u8[bytes]: its tokenizer, say (schema/file/attached_files.h).
  std::map<std::string, Tensor, std::less<>> files;

 private:
  void copy_tables(const Model& other);

  std::vector<NamedTensor> tensors_;
  std::set<std::string> tensor_names_;
  std::vector<State> states_;
  std::map<std::string, int32_t, std::less<>> state_index_;
  std::vector<std::unique_ptr<Graph>> entries_;  // in the order they were added
};

// Throws Error: the model has no state `name`, and which of its states it may have been meant to be.
[[noreturn]] void fail_no_state(const Model& model, const std::string& name);

// A copy of `graph` in `model` with the same nodes in the same order and the same names.
Graph copy_graph(const Graph& graph, Model& model);

}  // namespace genesis
