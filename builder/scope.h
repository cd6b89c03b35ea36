// A place in a model's tree of names, where layers create their parameters: Scope(model) / "layers" / 0 /
// "q_proj". Layers are plain values that remember state indices, so there is nothing to register and nothing
// to keep alive.
#pragma once

#include <string>
#include <vector>

#include "builder/init.h"
#include "schema/graph/model.h"

namespace genesis {

// A state of the model as a layer holds it.
struct Parameter {
  Model* model = nullptr;
  int32_t index = -1;

  explicit operator bool() const { return index >= 0; }
  Value in(Graph& graph) const;  // its value in a graph; throws Error when that is of another model
  const State& state() const { return model->state(index); }
  const std::string& name() const { return state().name; }  // from the root: "layers.0.q_proj.weight"
  const TensorType& type() const { return state().type; }
  void set_trainable(bool trainable) const { model->set_trainable(index, trainable); }
};

// As torch's named_parameters() gives them: by their names from a scope on.
struct NamedParameter {
  std::string name;
  Parameter parameter;
};

class Scope {
 public:
  // `seed` decides every initial value; `dtype` is that of the parameters.
  explicit Scope(Model& model, uint64_t seed = 0, DType dtype = DType::f32)
      : model_(&model), seed_(seed), dtype_(dtype) {}

  Scope operator/(const std::string& name) const;
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }

  Model& model() const { return *model_; }
  DType dtype() const { return dtype_; }
  const std::string& path() const { return path_; }  // "layers.0.q_proj", empty at the root

  // The parameters (and buffers) made here and below, in the order they were made; at the root all of the model's. A
  // weight that layers share stands where it was made.
  std::vector<Parameter> parameters() const;
  std::vector<Parameter> buffers() const;
  std::vector<NamedParameter> named_parameters() const;  // Scope(model) / "fc" has "weight" and "bias"
  std::vector<NamedParameter> named_buffers() const;

  // A trainable state "<path>.<name>". Throws Error when it is there already.
  Parameter parameter(const std::string& name, Shape shape, const init::Init& init) const;
  // A state that is saved but not trained (running statistics): zeros, or as `init` says.
  Parameter buffer(const std::string& name, Shape shape, const init::Init& init = init::zeros()) const;
  // A state that belongs to a running session only (a KV cache): zeros.
  Parameter cache(const std::string& name, Shape shape, DType dtype) const;
  // The model's random number state, one for all layers, made when first asked for.
  Parameter rng() const;

 private:
  std::string full_name(const std::string& name) const;
  std::vector<NamedParameter> states_below(StateRole role) const;
  // Adds a state filled as `init` says; its name is made full here.
  Parameter add(State state, const init::Init& init) const;

  Model* model_;
  uint64_t seed_;
  DType dtype_;
  std::string path_;
};

// Adds a layer's nodes under the layer's path in the graph of `x`; inside another layer, in place of that one's. Made by
// the call of a Module (builder/module.h).
class LayerScope {
 public:
  LayerScope(Value x, const std::string& path);  // throws Error naming the layer when x is empty
  ~LayerScope() { graph_.pop_scope(); }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  Graph& graph_;
};

}  // namespace genesis
