#include "models/mlp.h"

#include "builder/genesis.h"
#include "models/config_sizes.h"

namespace genesis::models {
namespace {

nn::Layer layer_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return nn::ReLU();
    case Activation::kGelu:
      return nn::GELU();
    case Activation::kSilu:
      return nn::SiLU();
    case Activation::kTanh:
      break;
  }
  return nn::Tanh();
}

nn::Sequential make_network(const Scope& scope, const MlpConfig& c) {
  nn::Sequential network({});
  int64_t number = 0, features = c.in_features;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i, features = c.hidden_features) {
    network.append(nn::Linear(scope / "layers" / number++, features, c.hidden_features));
    network.append(layer_of(c.activation));
    ++number;
    if (c.dropout > 0) network.append(nn::Dropout(scope / "layers" / number++, c.dropout));
  }
  network.append(nn::Linear(scope / "layers" / number, features, c.num_classes));
  return network;
}

}  // namespace

std::unique_ptr<Model> make_mlp(const MlpConfig& config, uint64_t seed) {
  check_size("mlp", "in_features", config.in_features);
  check_size("mlp", "hidden_features", config.hidden_features);
  check_size("mlp", "num_classes", config.num_classes);
  if (config.num_hidden_layers != 0)
    check_size("mlp", "num_hidden_layers", config.num_hidden_layers, kMaxLayers);
  if (!(config.dropout >= 0 && config.dropout <= 1))
    fail("mlp: dropout {} is not between 0 and 1", config.dropout);
  auto model = std::make_unique<Model>();
  const nn::Sequential network = make_network(Scope(*model, seed), config);
  const Dim batch = symbol("batch");
  {
    GraphBuilder g(*model, "forward");
    g.output("logits", network(g.input("x", DType::f32, {batch, config.in_features})));
  }
  {
    GraphBuilder g(*model, "loss", Mode::kTrain);
    const Value x = g.input("x", DType::f32, {batch, config.in_features}),
                target = g.input("target", DType::i64, {batch});
    g.output("loss", cross_entropy(network(x), target));
  }
  return model;
}

}  // namespace genesis::models
