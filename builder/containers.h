// Layers made of layers.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::nn {

// Anything that is called like a layer: Value -> Value.
using Layer = std::function<Value(Value)>;

// Returns the position of layer `index` in a container of `size` layers; a negative index counts from the end. Throws Error if
// there is no such layer.
size_t checked_index(std::string_view container, int64_t index, size_t size);

// Calls its layers one after the other: Sequential({Linear(s / 0, 784, 128), ReLU(), Linear(s / 2, 128, 10)}).
class Sequential {
 public:
  explicit Sequential(std::vector<Layer> layers) : layers_(std::move(layers)) {}
  void append(Layer layer) { layers_.push_back(std::move(layer)); }
  size_t size() const { return layers_.size(); }
  // Returns a layer, which can be called: net[0], net[-1]. Throws Error if there is no such layer.
  const Layer& operator[](int64_t index) const {
    return layers_[checked_index("Sequential", index, layers_.size())];
  }
  // Returns a layer as its own type: net.get<Linear>(0).weight. Throws Error if the layer has another type.
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

// A numbered list of layers of one type: ModuleList<Block> blocks(scope / "layers", 12, [&](Scope s) { return Block(s, config);
// }); or one by one: blocks.append(Block(scope / "layers" / blocks.size(), config));
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
  // Returns blocks[0], blocks[-1]. Throws Error if there is no such layer.
  const L& operator[](int64_t index) const {
    return layers_[checked_index("ModuleList", index, layers_.size())];
  }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }

 private:
  std::vector<L> layers_;
};

// Computes x + layer(x).
class Residual {
 public:
  explicit Residual(Layer layer) : layer_(std::move(layer)) {}
  Value operator()(Value x) const;

 private:
  Layer layer_;
};

}  // namespace genesis::nn
