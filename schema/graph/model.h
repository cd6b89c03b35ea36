// A Model: one table of tensors, one table of states, and the entry points (graphs) that share them. Copying a model copies its
// graphs and shares its bytes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/encoding/state_format.h"
#include "schema/graph/cache_layout.h"
#include "schema/graph/graph.h"

namespace genesis {

// The numbers are written in files: append only.
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

// Memory that outlives a run. A parameter has initial values; a state without them starts as zeros. initial_value()
// (schema/graph/state_storage.h) returns them as a tensor, however they are stored.
struct State {
  std::string name;  // state_dict style: "layers.0.self_attn.q_proj.weight"
  TensorType type;   // with known sizes
  StateRole role = StateRole::kParameter;
  bool trainable = false;
  Tensor initial;                         // empty_handle(): zeros, unless `encoded` is set
  EncodedValues encoded = {};             // encoded initial values, instead of `initial`
  std::optional<CacheLayout> cache = {};  // declares what a cache holds; cache_layout() reads it
};

class Model {
 public:
  Model() = default;
  Model(const Model& other);
  Model& operator=(const Model& other);
  // Returns a model with the tables and metadata of `other` and no entry points, as a working copy for a pass pipeline.
  static std::unique_ptr<Model> with_tables_of(const Model& other);
  // Graphs point to their model, so a model does not move: hold it by unique_ptr or shared_ptr, or copy it.

  int32_t add_tensor(const std::string& name, Tensor tensor);  // makes the name unique
  int32_t add_state(State state);                              // throws Error if the name is taken
  void set_initial(int32_t state, Tensor tensor);              // throws Error if the type differs
  // Sets encoded initial values, whose format the state is kept in from now on. Throws Error if they do not fit the state's type.
  void set_encoded(int32_t state, EncodedValues values);
  void set_trainable(int32_t state, bool trainable);
  // Gives a state without values another shape. Entry points that read it must be written anew: their types are stale.
  void set_shape(int32_t state, Shape shape);
  Graph& add_entry(const std::string& name);  // throws Error if the name is taken
  void replace_entry(Graph graph);            // replaces the entry point of the same name, or adds it
  void remove_entry(const std::string& name);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::vector<State>& states() const { return states_; }
  const State& state(int32_t index) const { return states_[static_cast<size_t>(index)]; }
  int32_t find_state(std::string_view name) const;  // -1 if there is none
  const std::vector<std::unique_ptr<Graph>>& entries() const { return entries_; }
  const Graph* find_entry(std::string_view name) const;  // null if there is none
  const Graph& entry(std::string_view name) const;       // throws Error naming the entry points there are
  Graph& entry(std::string_view name);

  // Copies what `other` says about itself: metadata and files.
  void describe_as(const Model& other);

  // Free-form facts: "architecture", "config" (JSON), ...
  std::map<std::string, std::string> metadata;
  // Files that travel with the model unread, by name, each as u8[bytes], such as its tokenizer (schema/file/attached_files.h).
  std::map<std::string, Tensor, std::less<>> files;

 private:
  void copy_tables(const Model& other);

  std::vector<NamedTensor> tensors_;
  std::set<std::string> tensor_names_;
  std::vector<State> states_;
  std::map<std::string, int32_t, std::less<>> state_index_;
  std::vector<std::unique_ptr<Graph>> entries_;  // in the order they were added
};

// Throws Error that the model has no state `name`, with the names that were probably meant.
[[noreturn]] void fail_no_state(const Model& model, const std::string& name);

// Returns a copy of `graph` in `model` with the same nodes in the same order and the same names.
Graph copy_graph(const Graph& graph, Model& model);
Graph copy_graph(const Graph& graph, Model& model, const std::string& name);  // under another name

}  // namespace genesis
