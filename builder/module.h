// The base class of layers. A layer has a place in the tree of names, and its forward() defines the computation:
//
//     class Block : public nn::Module<Block> {
//      public:
//       Block(const Scope& scope, int64_t size) : Module(scope), norm_(scope / "norm", size), fc_(scope / "fc", size, size) {}
//       Value forward(Value x) const { return x + fc_(norm_(x)); }
//
//      private:
//       nn::RMSNorm norm_;
//       nn::Linear fc_;
//     };
//
// A layer is called like a function, y = block(x); block.parameters() are its parameters. The call adds the layer's nodes under
// its path, and the nodes of layers inside it under theirs. Modules are plain values: there is nothing to register, because the
// model knows all states by name.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "builder/scope.h"

namespace genesis::nn {

// Holds the place of a layer in the tree of names, and lists the states created there.
class ModuleBase {
 public:
  explicit ModuleBase(const Scope& scope) : scope_(scope) {}
  const std::string& path() const { return scope_.path(); }

  // List the states of this layer and of all layers inside it (builder/scope.h).
  std::vector<Parameter> parameters() const { return scope_.parameters(); }
  std::vector<Parameter> buffers() const { return scope_.buffers(); }
  std::vector<NamedParameter> named_parameters() const { return scope_.named_parameters(); }
  std::vector<NamedParameter> named_buffers() const { return scope_.named_buffers(); }

 private:
  Scope scope_;
};

template <class Derived>
class Module : public ModuleBase {
 public:
  using ModuleBase::ModuleBase;

  // Calls forward() with the same arguments; the first Value among them selects the graph. Throws Error naming the layer if that
  // Value is empty. The template parameter Layer is Derived: it defers the check of forward() to the call, where the class is
  // complete.
  template <class... Arguments, class Layer = Derived>
  requires(std::is_base_of_v<Value, std::remove_cvref_t<Arguments>> || ...) &&
      requires(const Layer& layer, Arguments&&... arguments) {
    layer.forward(std::forward<Arguments>(arguments)...);
  }
  decltype(auto) operator()(Arguments&&... arguments) const {
    const LayerScope names(first_value(arguments...), path());
    return static_cast<const Layer&>(*this).forward(std::forward<Arguments>(arguments)...);
  }

 private:
  template <class First, class... Rest>
  static Value first_value(const First& first, const Rest&... rest) {
    if constexpr (std::is_base_of_v<Value, First>)
      return first;
    else
      return first_value(rest...);
  }
};

}  // namespace genesis::nn
