// Tests containers of layers: indexing, appending, and the error for a layer that does not exist.
#include "builder/containers.h"

#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

TEST(Containers, ASequentialIsIndexedFromBothEnds) {
  Model model;
  const Scope s(model);
  const nn::Sequential net({nn::Linear(s / 0, 4, 3), nn::ReLU(), nn::Linear(s / 2, 3, 2)});
  EXPECT_EQ(net.size(), 3u);
  const Tensor x = wave_tensor({2, 4}, 0.1);
  const Doubles all = run_layer(model, {x}, [&](const auto& v) { return net(v[0]); }).y();
  EXPECT_EQ(run_layer(model, {x}, [&](const auto& v) { return net[-1](net[1](net[0](v[0]))); }).y(), all);
  const Doubles by_loop = run_layer(model, {x}, [&](const auto& v) {
                            Value y = v[0];
                            for (const nn::Layer& layer : net) y = layer(y);
                            return y;
                          }).y();
  EXPECT_EQ(by_loop, all);
  EXPECT_EQ(net.get<nn::Linear>(0).weight.name(), "0.weight");
  EXPECT_EQ(net.get<nn::Linear>(-1).weight.name(), "2.weight");
  expect_error([&] { net[3]; }, {"layer 3", "Sequential", "has 3"});
  expect_error([&] { net[-4]; }, {"layer -4", "has 3"});
  expect_error([&] { net.get<nn::Linear>(1); }, {"layer 1", "not of the type"});
}

TEST(Containers, AModuleListGrows) {
  Model model;
  const Scope layers = Scope(model) / "layers";
  nn::ModuleList<nn::Linear> blocks;
  for (int i = 0; i < 3; ++i) blocks.append(nn::Linear(layers / blocks.size(), 2, 2, {.bias = false}));
  EXPECT_EQ(state_names(model),
            (std::vector<std::string>{"layers.0.weight f32[2,2]", "layers.1.weight f32[2,2]",
                                      "layers.2.weight f32[2,2]"}));
  EXPECT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[-1].weight.name(), "layers.2.weight");
  expect_error([&] { blocks[3]; }, {"layer 3", "ModuleList", "has 3"});
  expect_error([] { nn::ModuleList<nn::Linear>()[0]; }, {"layer 0", "has 0"});
  const nn::ModuleList<nn::ReLU> given(std::vector<nn::ReLU>(2));
  EXPECT_EQ(given.size(), 2u);
}

std::vector<std::string> names_of(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters) names.push_back(name + " = " + parameter.name());
  return names;
}

TEST(Containers, ListTheParametersOfTheirLayers) {
  Model model;
  const Scope s(model);
  const nn::Linear first(s / "a", 4, 4), second(s / "b", 4, 4, {.bias = false});
  const nn::Sequential inner({nn::Residual(second), nn::Tanh()});
  const nn::Sequential net({first, [](Value x) { return x * 2; }, inner, first});
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"0.weight = a.weight", "0.bias = a.bias", "2.0.weight = b.weight"}))
      << "a layer that stands there twice is listed once";
  EXPECT_EQ(net.parameters().size(), 3u);
  EXPECT_EQ(net.parameters()[0].shape(), Shape({4, 4}));
  EXPECT_EQ(net.parameters()[0].numel(), 16);
  const nn::ModuleList<nn::Linear> list({first, second});
  EXPECT_EQ(names_of(list.named_parameters()),
            (Names{"0.weight = a.weight", "0.bias = a.bias", "1.weight = b.weight"}));
  EXPECT_EQ(list.parameters().size(), 3u);
  EXPECT_TRUE(nn::Layer(nn::ReLU()).named_parameters().empty());
}

}  // namespace
}  // namespace genesis
