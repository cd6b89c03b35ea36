// MobileNetV3 of torchvision (Howard et al., "Searching for MobileNetV3", 2019).
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

using vision::Act;
using vision::ConvNorm;
using vision::rounded_channels;

struct MobileNetConfig {
  bool small = false;
  double width_mult = 1, dropout = 0.2;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("width_mult", self.width_mult);
    visit("dropout", self.dropout);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

struct Row {
  int64_t kernel, expanded, out;
  bool squeezes;
  Act act;
  int64_t stride;
};
constexpr Act kRe = Act::kRelu, kHs = Act::kHardswish;
constexpr Row kLarge[] = {
    {3, 16, 16, false, kRe, 1},  {3, 64, 24, false, kRe, 2},  {3, 72, 24, false, kRe, 1},
    {5, 72, 40, true, kRe, 2},   {5, 120, 40, true, kRe, 1},  {5, 120, 40, true, kRe, 1},
    {3, 240, 80, false, kHs, 2}, {3, 200, 80, false, kHs, 1}, {3, 184, 80, false, kHs, 1},
    {3, 184, 80, false, kHs, 1}, {3, 480, 112, true, kHs, 1}, {3, 672, 112, true, kHs, 1},
    {5, 672, 160, true, kHs, 2}, {5, 960, 160, true, kHs, 1}, {5, 960, 160, true, kHs, 1}};
constexpr Row kSmall[] = {{3, 16, 16, true, kRe, 2},  {3, 72, 24, false, kRe, 2}, {3, 88, 24, false, kRe, 1},
                          {5, 96, 40, true, kHs, 2},  {5, 240, 40, true, kHs, 1}, {5, 240, 40, true, kHs, 1},
                          {5, 120, 48, true, kHs, 1}, {5, 144, 48, true, kHs, 1}, {5, 288, 96, true, kHs, 2},
                          {5, 576, 96, true, kHs, 1}, {5, 576, 96, true, kHs, 1}};
constexpr double kEps = 0.001, kMomentum = 0.01;

// Widens, filters each channel, weighs channels, and narrows: "block.0", "block.1", ...
nn::Layer make_block(const Scope& block, const Row& row, int64_t in, double width_mult) {
  const auto adjusted = [&](int64_t channels) {
    return rounded_channels(static_cast<double>(channels) * width_mult);
  };
  const int64_t expanded = adjusted(row.expanded), out = adjusted(row.out);
  const Scope scope = block / "block";
  nn::Sequential layers({});
  int64_t number = 0;
  const auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t stride, int64_t groups, Act act) {
    layers.append(
        ConvNorm(scope / number++, from, to, kernel,
                 {.stride = stride, .groups = groups, .act = act, .eps = kEps, .momentum = kMomentum}));
  };
  if (expanded != in) add(in, expanded, 1, 1, 1, row.act);
  add(expanded, expanded, row.kernel, row.stride, expanded, row.act);
  if (row.squeezes)
    layers.append(vision::SqueezeExcitation(scope / number++, expanded,
                                            rounded_channels(static_cast<double>(expanded / 4)), Act::kRelu,
                                            hardsigmoid));
  add(expanded, out, 1, 1, 1, Act::kNone);
  if (row.stride == 1 && in == out) return nn::Residual(layers);
  return layers;
}

nn::Layer make_layers(const Scope& scope, const MobileNetConfig& c) {
  const std::vector<Row> rows = c.small ? std::vector<Row>(std::begin(kSmall), std::end(kSmall))
                                        : std::vector<Row>(std::begin(kLarge), std::end(kLarge));
  const auto adjusted = [&](int64_t channels) {
    return rounded_channels(static_cast<double>(channels) * c.width_mult);
  };
  const Scope features = scope / "features", classifier = scope / "classifier";
  int64_t channels = adjusted(16), number = 0;
  nn::Sequential network({});
  network.append(ConvNorm(features / number++, 3, channels, 3,
                          {.stride = 2, .act = kHs, .eps = kEps, .momentum = kMomentum}));
  for (const Row& row : rows) {
    network.append(make_block(features / number++, row, channels, c.width_mult));
    channels = adjusted(row.out);
  }
  network.append(ConvNorm(features / number, channels, 6 * channels, 1,
                          {.act = kHs, .eps = kEps, .momentum = kMomentum}));
  network.append([](Value x) { return mean(x, {2, 3}); });
  const int64_t hidden = adjusted(c.small ? 1024 : 1280);
  network.append(nn::Linear(classifier / 0, 6 * channels, hidden));
  network.append(nn::Hardswish());
  if (c.dropout > 0) network.append(nn::Dropout(classifier / 2, c.dropout));
  network.append(nn::Linear(classifier / 3, hidden, c.num_classes));
  return network;
}

std::unique_ptr<Model> make_mobilenet(const std::string& family, const MobileNetConfig& c, uint64_t seed) {
  if (!(c.width_mult > 0 && c.width_mult <= 64))
    fail("{}: width_mult {} is not between 0 and 64", family, c.width_mult);
  if (!(c.dropout >= 0 && c.dropout < 1))
    fail("{}: dropout {} is not at least 0 and below 1", family, c.dropout);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  return vision::make_image_model(c.image_size, seed, {},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

Family family(const std::string& name, bool small) {
  return {.name = name,
          .summary = "small convolutional network for classes of pictures, with torchvision's names",
          .network = make_network(MobileNetConfig{.small = small}, make_mobilenet)};
}

}  // namespace

Family mobilenet_v3_small_family() { return family("mobilenet_v3_small", true); }
Family mobilenet_v3_large_family() { return family("mobilenet_v3_large", false); }

}  // namespace genesis::models
