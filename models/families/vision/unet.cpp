// UNet for classes of pixels, with the names of the widely used repository Pytorch-UNet (Ronneberger et al., "U-Net: convolutional
// networks for biomedical image segmentation", 2015; with batch norm and padding).
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

struct UnetConfig {
  int64_t base_channels = 64, num_classes = 2, image_size = 256;

  static void fields(auto& self, auto&& visit) {
    visit("base_channels", self.base_channels);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

constexpr int kDepth = 4;  // times that the picture is halved

// Two convolutions with batch norm: "double_conv.0", "double_conv.1", "double_conv.3", "double_conv.4".
nn::Sequential double_conv(const Scope& place, int64_t in, int64_t out) {
  const Scope scope = place / "double_conv";
  nn::Sequential layers({});
  for (const int64_t i : {0, 3}) {
    layers.append(
        nn::Conv2d(scope / i, i == 0 ? in : out, out, {3}, {.conv = {.padding = {1}}, .bias = false}));
    layers.append(nn::BatchNorm2d(scope / (i + 1), out));
    layers.append(nn::ReLU());
  }
  return layers;
}

nn::Layer make_layers(const Scope& scope, const UnetConfig& c) {
  std::vector<nn::Sequential> down{double_conv(scope / "inc", 3, c.base_channels)}, up;
  std::vector<nn::ConvTranspose2d> widen;
  int64_t channels = c.base_channels;
  for (int i = 1; i <= kDepth; ++i, channels *= 2)
    down.push_back(
        double_conv(scope / ("down" + std::to_string(i)) / "maxpool_conv" / 1, channels, 2 * channels));
  for (int i = 1; i <= kDepth; ++i, channels /= 2) {
    const Scope place = scope / ("up" + std::to_string(i));
    widen.emplace_back(place / "up", channels, channels / 2, std::vector<int64_t>{2},
                       nn::ConvLayerOptions{.conv = {.stride = {2}}});
    up.push_back(double_conv(place / "conv", channels, channels / 2));
  }
  const nn::Conv2d out(scope / "outc" / "conv", channels, c.num_classes, {1});
  return [=](Value x) {
    std::vector<Value> left{down[0](x)};
    for (size_t i = 1; i < down.size(); ++i)
      left.push_back(down[i](max_pool(left.back(), {.window = {2, 2}})));
    Value y = left.back();
    for (size_t i = 0; i < up.size(); ++i) y = up[i](concat({left[left.size() - 2 - i], widen[i](y)}, 1));
    return out(y);
  };
}

std::unique_ptr<Model> make_unet(const std::string& family, const UnetConfig& c, uint64_t seed) {
  check_size(family, "base_channels", c.base_channels, vision::kMaxChannels / 16);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  if (c.image_size % (1 << kDepth) != 0)
    fail("{}: image_size {} is no multiple of {}", family, c.image_size, 1 << kDepth);
  return vision::make_image_model(c.image_size, seed, {.fit = images::Fit::kStretch, .mean = {0}, .std = {1}},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

}  // namespace

Family unet_family() {
  return {.name = "unet",
          .summary = "convolutional network for classes of pixels, with the names of Pytorch-UNet",
          .network = make_network(UnetConfig{}, make_unet)};
}

}  // namespace genesis::models
