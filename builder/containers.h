// Layers made of layers.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::nn {

// Anything called like a layer: Value -> Value.
using Layer = std::function<Value(Value)>;

// Where layer `index` stands among `size`, counted from the end when it is negative. Throws Error when there is none.
size_t checked_index(std::string_view container, int64_t index, size_t size);

// Sequential({Linear(s / 0, 784, 128), ReLU(), Linear(s / 2, 128, 10)})
class Sequential {
 public:
  explicit Sequential(std::vector<Layer> layers) : layers_(std::move(layers)) {}
  void append(Layer layer) { layers_.push_back(std::move(layer)); }
  size_t size() const { return layers_.size(); }
  // net[0], net[-1]: to be called. Throws Error when there is no such layer.
  const Layer& operator[](int64_t index) const {
    return layers_[checked_index("Sequential", index, layers_.size())];
  }
  // The layer as what it is: net.get<Linear>(0).weight. Throws Error when it is something else.
  template <class L>
  const L& get(int64_t index) const {
    const L* layer = (*this)[index].template target<L>();
    if (!layer) fail("layer {} of this Sequential is not of the type asked for", index);
    return *layer;
  }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }
  Value operator()(Value x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x;
  }

 private:
  std::vector<Layer> layers_;
};

// Layers of one kind, numbered: ModuleList<Block> blocks(scope / "layers", 12, [&](Scope s) { return Block(s,
// config); }); or one by one: blocks.append(Block(scope / "layers" / blocks.size(), config));
template <class L>
class ModuleList {
 public:
  ModuleList() = default;
  explicit ModuleList(std::vector<L> layers) : layers_(std::move(layers)) {}
  template <class S, class Make>
  ModuleList(const S& scope, int64_t count, Make&& make) {
    layers_.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) layers_.push_back(make(scope / i));
  }
  void append(L layer) { layers_.push_back(std::move(layer)); }
  size_t size() const { return layers_.size(); }
  // blocks[0], blocks[-1]. Throws Error when there is no such layer.
  const L& operator[](int64_t index) const {
    return layers_[checked_index("ModuleList", index, layers_.size())];
  }
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
