// EfficientNet-B0 of torchvision (Tan & Le, "EfficientNet: rethinking model scaling", 2019), without its stochastic depth.
#include <cmath>

#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

using vision::Act;
using vision::ConvNorm;
using vision::rounded_channels;

struct EfficientNetConfig {
  double width_mult = 1, depth_mult = 1, dropout = 0.2;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("width_mult", self.width_mult);
    visit("depth_mult", self.depth_mult);
    visit("dropout", self.dropout);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

struct Stage {
  int64_t expansion, kernel, stride, in, out, blocks;
};
constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                             {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                             {6, 3, 1, 192, 320, 1}};

// Widens, filters each channel, weighs channels, and narrows: "block.0", "block.1", ...
nn::Layer make_block(const Scope& block, const Stage& stage, int64_t in, int64_t out, int64_t stride) {
  const Scope scope = block / "block";
  const int64_t expanded = rounded_channels(static_cast<double>(in * stage.expansion));
  nn::Sequential layers({});
  int64_t number = 0;
  if (expanded != in) layers.append(ConvNorm(scope / number++, in, expanded, 1, {.act = Act::kSilu}));
  layers.append(ConvNorm(scope / number++, expanded, expanded, stage.kernel,
                         {.stride = stride, .groups = expanded, .act = Act::kSilu}));
  layers.append(vision::SqueezeExcitation(scope / number++, expanded, std::max<int64_t>(1, in / 4),
                                          Act::kSilu, sigmoid));
  layers.append(ConvNorm(scope / number, expanded, out, 1, {.act = Act::kNone}));
  if (stride == 1 && in == out) return nn::Residual(layers);
  return layers;
}

nn::Layer make_layers(const Scope& scope, const EfficientNetConfig& c) {
  const auto adjusted = [&](int64_t channels) {
    return rounded_channels(static_cast<double>(channels) * c.width_mult);
  };
  const Scope features = scope / "features";
  int64_t channels = adjusted(32), number = 0;
  nn::Sequential network({});
  network.append(ConvNorm(features / number++, 3, channels, 3, {.stride = 2, .act = Act::kSilu}));
  for (const Stage& stage : kStages) {
    const auto blocks = static_cast<int64_t>(std::ceil(static_cast<double>(stage.blocks) * c.depth_mult));
    for (int64_t i = 0; i < blocks; ++i, channels = adjusted(stage.out))
      network.append(
          make_block(features / number / i, stage, channels, adjusted(stage.out), i == 0 ? stage.stride : 1));
    ++number;
  }
  network.append(ConvNorm(features / number, channels, 4 * channels, 1, {.act = Act::kSilu}));
  network.append([](Value x) { return mean(x, {2, 3}); });
  if (c.dropout > 0) network.append(nn::Dropout(scope / "classifier" / 0, c.dropout));
  network.append(nn::Linear(scope / "classifier" / 1, 4 * channels, c.num_classes));
  return network;
}

std::unique_ptr<Model> make_efficientnet(const std::string& family, const EfficientNetConfig& c,
                                         uint64_t seed) {
  for (const auto& [name, value] : {std::pair("width_mult", c.width_mult), {"depth_mult", c.depth_mult}})
    if (!(value > 0 && value <= 64)) fail("{}: {} {} is not between 0 and 64", family, name, value);
  if (!(c.dropout >= 0 && c.dropout < 1))
    fail("{}: dropout {} is not at least 0 and below 1", family, c.dropout);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  return vision::make_image_model(c.image_size, seed, {.filter = images::Filter::kBicubic},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

}  // namespace

Family efficientnet_b0_family() {
  return {.name = "efficientnet_b0",
          .summary = "convolutional network for classes of pictures, with torchvision's names",
          .network = make_network(EfficientNetConfig{}, make_efficientnet)};
}

}  // namespace genesis::models
