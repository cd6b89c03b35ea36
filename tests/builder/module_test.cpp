// Tests modules written by an author: the places of their nodes and parameters, without any code about scopes.
#include "builder/module.h"

#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

class FeedForward : public nn::Module<FeedForward> {
 public:
  FeedForward(const Scope& scope, int64_t size)
      : Module(scope), up_(scope / "up", size, 2 * size), down_(scope / "down", 2 * size, size) {}
  Value forward(Value x) const { return down_(relu(up_(x))); }

 private:
  nn::Linear up_, down_;
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& scope, int64_t size, const nn::Linear& shared)
      : Module(scope), norm_(scope / "norm", size), mlp_(scope / "mlp", size), shared_(shared) {}
  Value forward(Value x, double factor = 1) const { return x + mlp_(norm_(shared_(x))) * factor; }

 private:
  nn::RMSNorm norm_;
  FeedForward mlp_;
  nn::Linear shared_;
};

Names node_names(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  return names;
}

TEST(Modules, NodesStandUnderTheirModuleHoweverDeep) {
  Model model;
  const Scope root(model);
  const nn::Linear shared(root / "shared", 4, 4);
  const Block block(root / "blocks" / 0, 4, shared);
  GraphBuilder g(model, "forward");
  const Value y = block(g.input("x", DType::f32, {2, 4}), 2.0);
  EXPECT_EQ(node_names(g.graph()),
            (Names{"shared.linear", "blocks.0.norm.rms_norm", "blocks.0.mlp.up.linear", "blocks.0.mlp.relu",
                   "blocks.0.mlp.down.linear", "blocks.0.full", "blocks.0.mul", "blocks.0.add"}));
  EXPECT_EQ(relu(y).name(), "relu") << "a module's scope ends with its call";
}

// A scope that an author pushes around a layer comes before the layer's path; a scope pushed inside comes after it.
TEST(Modules, ScopesOfTheAuthorsOwnKeepTheirPlace) {
  class Odd : public nn::Module<Odd> {
   public:
    explicit Odd(const Scope& scope) : Module(scope), fc_(scope / "fc", 2, 2, {.bias = false}) {}
    Value forward(Value x) const {
      const NameScope inner(*x.graph, "inner");
      return relu(fc_(relu(x)));
    }

   private:
    nn::Linear fc_;
  };
  Model model;
  const Odd odd(Scope(model) / "odd"), top{Scope(model)};
  GraphBuilder g(model, "forward");
  const Value x = g.input("x", DType::f32, {2, 2});
  {
    const NameScope outer(g.graph(), "outer");
    odd(x);
  }
  top(x);
  EXPECT_EQ(node_names(g.graph()),
            (Names{"outer.odd.inner.relu", "outer.odd.fc.linear", "outer.odd.inner.relu_1", "inner.relu",
                   "fc.linear", "inner.relu_1"}));
}

TEST(Modules, ParametersAreThoseOfThePathAndBelow) {
  Model model;
  const Scope root(model);
  const nn::Linear shared(root / "shared", 4, 4, {.bias = false});
  const Block block(root / "blocks" / 0, 4, shared);
  EXPECT_EQ(block.path(), "blocks.0");
  Names names;
  for (const auto& [name, parameter] : block.named_parameters())
    names.push_back(name + " " + parameter.type().to_string());
  EXPECT_EQ(names, (Names{"norm.weight f32[4]", "mlp.up.weight f32[8,4]", "mlp.up.bias f32[8]",
                          "mlp.down.weight f32[4,8]", "mlp.down.bias f32[4]"}));
  EXPECT_EQ(block.parameters().size(), 5u);
  EXPECT_TRUE(block.buffers().empty());
  EXPECT_EQ(nn::BatchNorm1d(root / "bn", 2).named_buffers().size(), 2u);
}

TEST(Modules, AnEmptyValueIsRefusedByName) {
  Model model;
  const Block block(Scope(model) / "block", 4, nn::Linear(Scope(model) / "shared", 4, 4));
  expect_error([&] { block(Value{}); }, {"'block'", "empty value"});
}

// A module can be used like a layer of the library: in containers, and in the graph of any value that it is called
// with.
TEST(Modules, AreCalledLikeLayers) {
  Model model;
  const Scope root(model, 3);
  const nn::Sequential net({FeedForward(root / 0, 4), nn::Tanh(), FeedForward(root / 2, 4)});
  const Tensor x = wave_tensor({2, 4}, 0.2);
  EXPECT_EQ(run_layer(model, {x}, [&](const auto& v) { return net(v[0]); }).y().size(), 8u);
  EXPECT_EQ(net.get<FeedForward>(2).path(), "2");
  static_assert(std::is_invocable_r_v<Value, const FeedForward&, Value>);
  static_assert(!std::is_invocable_v<const FeedForward&, Value, Value>);
  static_assert(!std::is_invocable_v<const FeedForward&>);
}

}  // namespace
}  // namespace genesis
