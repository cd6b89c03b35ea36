// Layers made of layers.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::nn {

// Anything called like a layer: Value -> Value.
using Layer = std::function<Value(Value)>;

// Sequential({Linear(s / 0, 784, 128), ReLU(), Linear(s / 2, 128, 10)})
class Sequential {
 public:
  explicit Sequential(std::vector<Layer> layers) : layers_(std::move(layers)) {}
  void append(Layer layer) { layers_.push_back(std::move(layer)); }
  Value operator()(Value x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x;
  }

 private:
  std::vector<Layer> layers_;
};

// Layers of one kind, numbered: ModuleList<Block> blocks(scope / "layers", 12, [&](Scope s) { return Block(s,
// config); });
template <class L>
class ModuleList {
 public:
  template <class S, class Make>
  ModuleList(const S& scope, int64_t count, Make&& make) {
    layers_.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) layers_.push_back(make(scope / i));
  }
  size_t size() const { return layers_.size(); }
  const L& operator[](size_t i) const { return layers_[i]; }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }

 private:
  std::vector<L> layers_;
};

// x + layer(x)
class Residual {
 public:
  explicit Residual(Layer layer) : layer_(std::move(layer)) {}
  Value operator()(Value x) const;

 private:
  Layer layer_;
};

}  // namespace genesis::nn
