// Scope, a place in a model's tree of names where layers create their parameters. Layers are plain values that hold state indices,
// so there is nothing to register and nothing to keep alive.
//
//     const Scope root(model, 1);                                  // the seed determines all initial values
//     const nn::Linear query(root / "layers" / 0 / "q_proj", 8, 8);  // has the parameter "layers.0.q_proj.weight"
#pragma once

#include <string>
#include <vector>

#include "builder/init.h"
#include "schema/graph/model.h"

namespace genesis {

// A layer's handle of a state of the model.
struct Parameter {
  Model* model = nullptr;
  int32_t index = -1;

  explicit operator bool() const { return index >= 0; }
  Value in(Graph& graph) const;  // its value in a graph; throws Error if the graph belongs to another model
  const State& state() const { return model->state(index); }
  const std::string& name() const { return state().name; }  // the full name: "layers.0.q_proj.weight"
  const TensorType& type() const { return state().type; }
  const Shape& shape() const { return type().shape; }
  int64_t numel() const { return type().numel(); }
  void set_trainable(bool trainable) const { model->set_trainable(index, trainable); }
};

// A parameter with its name relative to a scope, as torch's named_parameters() returns it.
struct NamedParameter {
  std::string name;
  Parameter parameter;
};

// Returns the parameters of such a list.
std::vector<Parameter> without_names(const std::vector<NamedParameter>& named);

class Scope {
 public:
  // `seed` determines all initial values; `dtype` is the dtype of the parameters.
  explicit Scope(Model& model, uint64_t seed = 0, DType dtype = DType::f32)
      : model_(&model), seed_(seed), dtype_(dtype) {}

  Scope operator/(const std::string& name) const;
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }

  Model& model() const { return *model_; }
  DType dtype() const { return dtype_; }
  const std::string& path() const { return path_; }  // "layers.0.q_proj", empty at the root

  // List the parameters (or buffers) created here and below, in the order of their creation; at the root, all of the model. A
  // weight that layers share is listed where it was created.
  std::vector<Parameter> parameters() const;
  std::vector<Parameter> buffers() const;
  std::vector<NamedParameter> named_parameters() const;  // Scope(model) / "fc" has "weight" and "bias"
  std::vector<NamedParameter> named_buffers() const;

  // Creates a trainable state "<path>.<name>". Throws Error if the name is taken.
  Parameter parameter(const std::string& name, Shape shape, const init::Init& init) const;
  // Creates a state that is saved but not trained (running statistics), filled as `init` says.
  Parameter buffer(const std::string& name, Shape shape, const init::Init& init = init::zeros()) const;
  // Creates a state that belongs to a running session only (a KV cache), filled with zeros. `layout` declares what it holds of the
  // texts that a session reads: only such states get another size (schema/graph/cache_layout.h).
  Parameter cache(const std::string& name, Shape shape, DType dtype,
                  std::optional<CacheLayout> layout = {}) const;
  // Returns the model's random number state, which all layers share; the first call creates it.
  Parameter rng() const;

 private:
  std::string full_name(const std::string& name) const;
  std::vector<NamedParameter> states_below(StateRole role) const;
  // Adds a state filled as `init` says; prefixes its name with the path.
  Parameter add(State state, const init::Init& init) const;

  Model* model_;
  uint64_t seed_;
  DType dtype_;
  std::string path_;
};

// While it lives, nodes that are added to the graph of `x` get the layer's path; inside another layer it replaces that layer's
// path. The call operator of Module creates one (builder/module.h).
class LayerScope {
 public:
  LayerScope(Value x, const std::string& path);  // throws Error naming the layer if x is empty
  ~LayerScope() { graph_.pop_scope(); }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  Graph& graph_;
};

}  // namespace genesis
