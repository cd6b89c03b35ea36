// A multilayer perceptron for classification: Linear, activation, ... , Linear ("layers.0.weight", "layers.2.weight").
//
// Entry points: forward  x f32[batch,in_features] -> logits;  loss  x, target i64[batch] -> loss f32[]
#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/families.h"
#include "models/network.h"

namespace genesis::models {

enum class MlpActivation : uint8_t { kRelu, kGelu, kSilu, kTanh };

}  // namespace genesis::models

template <>
struct genesis::EnumNames<genesis::models::MlpActivation> {
  static constexpr std::string_view names[] = {"relu", "gelu", "silu", "tanh"};
};

namespace genesis::models {
namespace {

struct MlpConfig {
  int64_t in_features = 784;
  int64_t hidden_features = 128;
  int64_t num_hidden_layers = 2;
  int64_t num_classes = 10;
  MlpActivation activation = MlpActivation::kRelu;
  double dropout = 0;

  static void fields(auto& self, auto&& visit) {
    visit("in_features", self.in_features);
    visit("hidden_features", self.hidden_features);
    visit("num_hidden_layers", self.num_hidden_layers);
    visit("num_classes", self.num_classes);
    visit("activation", self.activation);
    visit("dropout", self.dropout);
  }
};

nn::Layer layer_of(MlpActivation activation) {
  switch (activation) {
    case MlpActivation::kRelu:
      return nn::ReLU();
    case MlpActivation::kGelu:
      return nn::GELU();
    case MlpActivation::kSilu:
      return nn::SiLU();
    case MlpActivation::kTanh:
      break;
  }
  return nn::Tanh();
}

nn::Sequential make_layers(const Scope& scope, const MlpConfig& c) {
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

std::unique_ptr<Model> make_mlp(const std::string& family, const MlpConfig& config, uint64_t seed) {
  check_size(family, "in_features", config.in_features);
  check_size(family, "hidden_features", config.hidden_features);
  check_size(family, "num_classes", config.num_classes);
  if (config.num_hidden_layers != 0)
    check_size(family, "num_hidden_layers", config.num_hidden_layers, kMaxLayers);
  if (!(config.dropout >= 0 && config.dropout <= 1))
    fail("{}: dropout {} is not between 0 and 1", family, config.dropout);
  auto model = std::make_unique<Model>();
  const nn::Sequential network = make_layers(Scope(*model, seed), config);
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

}  // namespace

Family mlp_family() {
  return {.name = "mlp",
          .summary = "multilayer perceptron for classification",
          .network = make_network(MlpConfig{}, make_mlp)};
}

}  // namespace genesis::models
