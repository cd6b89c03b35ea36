// Layers made of layers. They are called like layers and list the parameters of their layers, numbered as in torch:
//
//     const nn::Sequential net({nn::Linear(scope / 0, 784, 128), nn::ReLU(), nn::Linear(scope / 2, 128, 10)});
//     for (const auto& [name, parameter] : net.named_parameters())  // "0.weight", "0.bias", "2.weight", "2.bias"
//       std::cout << name << " " << parameter.numel() << "\n";
//
//     const nn::ModuleList<nn::Linear> blocks(scope / "layers", 12, [](const Scope& s) { return nn::Linear(s, 8, 8); });
//     for (const nn::Linear& block : blocks) x = block(x);
#pragma once

#include <concepts>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "builder/scope.h"

namespace genesis::nn {

// A layer that lists its parameters.
template <class L>
concept HasParameters = requires(const L& layer) {
  { layer.named_parameters() } -> std::same_as<std::vector<NamedParameter>>;
};

// Anything that is called like a layer, Value -> Value: a module, a container, a function.
class Layer {
 public:
  template <class L>
  requires(!std::same_as<std::remove_cvref_t<L>, Layer> &&
           std::is_invocable_r_v<Value, std::remove_cvref_t<L>&, Value>) Layer(L layer)
      : call_(std::move(layer)) {
    if constexpr (HasParameters<L>)
      list_ = [](const Layer& self) { return self.target<L>()->named_parameters(); };
  }

  Value operator()(Value x) const { return call_(x); }
  // Returns the layer as its own type; null if it has another type.
  template <class L>
  const L* target() const {
    return call_.template target<L>();
  }
  // Lists the layer's parameters; none if it is not a HasParameters.
  std::vector<NamedParameter> named_parameters() const {
    return list_ ? list_(*this) : std::vector<NamedParameter>();
  }

 private:
  std::function<Value(Value)> call_;
  std::vector<NamedParameter> (*list_)(const Layer&) = nullptr;
};

// Returns the position of layer `index` in a container of `size` layers; a negative index counts from the end. Throws Error if
// there is no such layer.
size_t checked_index(std::string_view container, int64_t index, size_t size);

// Adds the parameters of layer `index` to a container's list, as "<index>.<name>". Leaves out those that an earlier layer shares.
void append_parameters(std::vector<NamedParameter>& all, size_t index,
                       const std::vector<NamedParameter>& of_layer);

// Calls its layers one after the other.
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
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Parameter> parameters() const { return without_names(named_parameters()); }

 private:
  std::vector<Layer> layers_;
};

// A numbered list of layers of one type. It grows by append(Block(scope / "layers" / blocks.size(), ...)).
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
  std::vector<NamedParameter> named_parameters() const requires HasParameters<L> {
    std::vector<NamedParameter> all;
    for (size_t i = 0; i < layers_.size(); ++i) append_parameters(all, i, layers_[i].named_parameters());
    return all;
  }
  std::vector<Parameter> parameters() const requires HasParameters<L> {
    return without_names(named_parameters());
  }

 private:
  std::vector<L> layers_;
};

// Computes x + layer(x).
class Residual {
 public:
  explicit Residual(Layer layer) : layer_(std::move(layer)) {}
  Value operator()(Value x) const;
  std::vector<NamedParameter> named_parameters() const { return layer_.named_parameters(); }
  std::vector<Parameter> parameters() const { return without_names(named_parameters()); }

 private:
  Layer layer_;
};

}  // namespace genesis::nn
