// A multilayer perceptron for classification: Linear, activation, ... , Linear ("layers.0.weight",
// "layers.2.weight").
//
// Entry points: forward  x f32[batch,in_features] -> logits;  loss  x, target i64[batch] -> loss f32[]
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis::models {

enum class Activation : uint8_t { kRelu, kGelu, kSilu, kTanh };

struct MlpConfig {
  int64_t in_features = 784;
  int64_t hidden_features = 128;
  int64_t num_hidden_layers = 2;
  int64_t num_classes = 10;
  Activation activation = Activation::kRelu;
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

std::unique_ptr<Model> make_mlp(const MlpConfig& config, uint64_t seed = 0);

}  // namespace genesis::models

template <>
struct genesis::EnumNames<genesis::models::Activation> {
  static constexpr std::string_view names[] = {"relu", "gelu", "silu", "tanh"};
};
