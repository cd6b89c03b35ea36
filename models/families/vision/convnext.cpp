// ConvNeXt-T of torchvision (Liu et al., "A ConvNet for the 2020s", 2022), without its stochastic depth.
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

constexpr double kEps = 1e-6;

struct ConvNextConfig {
  std::vector<int64_t> channels = {96, 192, 384, 768}, layers = {3, 3, 9, 3};
  double layer_scale = 1e-6;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("channels", self.channels);
    visit("layers", self.layers);
    visit("layer_scale", self.layer_scale);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

// Layer norm over the channels, axis 1 (torchvision's LayerNorm2d).
class ChannelNorm : public nn::Module<ChannelNorm> {
 public:
  ChannelNorm(const Scope& scope, int64_t channels) : Module(scope), norm_(scope, channels, kEps) {}
  Value forward(Value x) const { return movedim(norm_(movedim(x, 1, -1)), -1, 1); }

 private:
  nn::LayerNorm norm_;
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& scope, int64_t size, double scale)
      : Module(scope),
        filter_(scope / "block" / 0, size, size, {7},
                {.conv = {.padding = {3}, .groups = size}, .init = init()}),
        norm_(scope / "block" / 2, size, kEps),
        first_(scope / "block" / 3, size, 4 * size, {.init = init()}),
        second_(scope / "block" / 5, 4 * size, size, {.init = init()}),
        scale_(scope.parameter("layer_scale", {size, 1, 1}, init::constant(scale))) {}
  Value forward(Value x) const {
    const Value y = second_(gelu(first_(norm_(movedim(filter_(x), 1, -1)))));
    return x + scale_.in(*x.graph) * movedim(y, -1, 1);
  }
  static init::Init init() { return init::trunc_normal(0, 0.02); }

 private:
  nn::Conv2d filter_;
  nn::LayerNorm norm_;
  nn::Linear first_, second_;
  Parameter scale_;
};

nn::Layer make_layers(const Scope& scope, const ConvNextConfig& c) {
  const Scope features = scope / "features";
  nn::Sequential network({});
  const auto shrink = [&](const Scope& place, int64_t in, int64_t out, int64_t stride) {
    network.append(
        nn::Conv2d(place, in, out, {stride}, {.conv = {.stride = {stride}}, .init = Block::init()}));
  };
  shrink(features / 0 / 0, 3, c.channels[0], 4);
  network.append(ChannelNorm(features / 0 / 1, c.channels[0]));
  for (size_t stage = 0; stage < c.channels.size(); ++stage) {
    const auto number = static_cast<int64_t>(2 * stage);
    if (stage > 0) {
      network.append(ChannelNorm(features / number / 0, c.channels[stage - 1]));
      shrink(features / number / 1, c.channels[stage - 1], c.channels[stage], 2);
    }
    for (int64_t i = 0; i < c.layers[stage]; ++i)
      network.append(Block(features / (number + 1) / i, c.channels[stage], c.layer_scale));
  }
  network.append([](Value x) { return mean(x, {2, 3}); });
  network.append(nn::LayerNorm(scope / "classifier" / 0, c.channels.back(), kEps));
  network.append(
      nn::Linear(scope / "classifier" / 2, c.channels.back(), c.num_classes, {.init = Block::init()}));
  return network;
}

std::unique_ptr<Model> make_convnext(const std::string& family, const ConvNextConfig& c, uint64_t seed) {
  if (c.channels.size() != c.layers.size() || c.layers.empty() || c.layers.size() > 8)
    fail("{}: channels has {} numbers and layers {}, expected one of each for every stage, 8 at most", family,
         c.channels.size(), c.layers.size());
  for (const int64_t blocks : c.layers) check_size(family, "layers", blocks, kMaxLayers);
  for (const int64_t channels : c.channels) check_size(family, "channels", channels, vision::kMaxChannels);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  return vision::make_image_model(c.image_size, seed, {.resize = c.image_size == 224 ? 236 : 0},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

}  // namespace

Family convnext_tiny_family() {
  return {.name = "convnext_tiny",
          .summary = "convolutional network with the blocks of transformers, with torchvision's names",
          .network = make_network(ConvNextConfig{}, make_convnext)};
}

}  // namespace genesis::models
