// ResNet of torchvision, by the number of its layers (He et al., "Deep residual learning for image recognition", 2015). A layer with a
// stride has it in its 3x3 convolution.
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

struct ResnetConfig {
  std::vector<int64_t> layers = {2, 2, 2, 2};  // blocks of each stage
  bool bottleneck = false;
  int64_t groups = 1, width_per_group = 64;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("layers", self.layers);
    visit("bottleneck", self.bottleneck);
    visit("groups", self.groups);
    visit("width_per_group", self.width_per_group);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

nn::Conv2d conv(const Scope& scope, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
                int64_t groups = 1) {
  return {scope, in, out, {kernel}, vision::conv_options(out, kernel, stride, groups, false)};
}

// A convolution and its batch norm, which have names of their own beside each other.
struct ConvPair {
  ConvPair(const Scope& scope, int64_t number, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
           int64_t groups = 1)
      : convolution(conv(scope / ("conv" + std::to_string(number)), in, out, kernel, stride, groups)),
        norm(scope / ("bn" + std::to_string(number)), out) {}
  Value operator()(Value x) const { return norm(convolution(x)); }
  nn::Conv2d convolution;
  nn::BatchNorm2d norm;
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& scope, const ResnetConfig& c, int64_t in, int64_t planes, int64_t stride)
      : Module(scope) {
    const int64_t out = planes * (c.bottleneck ? 4 : 1);
    if (c.bottleneck) {
      const int64_t width = planes * c.width_per_group / 64 * c.groups;
      pairs_ = {
          {scope, 1, in, width, 1}, {scope, 2, width, width, 3, stride, c.groups}, {scope, 3, width, out, 1}};
    } else {
      pairs_ = {{scope, 1, in, planes, 3, stride}, {scope, 2, planes, planes, 3}};
    }
    if (stride != 1 || in != out)
      shortcut_.push_back({scope / "downsample", in, out, 1, {.stride = stride, .act = vision::Act::kNone}});
  }
  Value forward(Value x) const {
    Value y = x;
    for (size_t i = 0; i < pairs_.size(); ++i) y = i + 1 < pairs_.size() ? relu(pairs_[i](y)) : pairs_[i](y);
    return relu(y + (shortcut_.empty() ? x : shortcut_[0](x)));
  }

 private:
  std::vector<ConvPair> pairs_;
  std::vector<vision::ConvNorm> shortcut_;
};

nn::Layer make_layers(const Scope& scope, const ResnetConfig& c) {
  const ConvPair stem(scope, 1, 3, 64, 7, 2);
  std::vector<Block> blocks;
  int64_t channels = 64;
  for (size_t stage = 0; stage < c.layers.size(); ++stage)
    for (int64_t i = 0; i < c.layers[stage]; ++i) {
      const int64_t planes = int64_t{64} << stage;
      blocks.push_back({scope / ("layer" + std::to_string(stage + 1)) / i, c, channels, planes,
                        stage > 0 && i == 0 ? 2 : 1});
      channels = planes * (c.bottleneck ? 4 : 1);
    }
  const nn::Linear head(scope / "fc", channels, c.num_classes);
  return [=](Value x) {
    x = max_pool(relu(stem(x)), {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    for (const Block& block : blocks) x = block(x);
    return head(mean(x, {2, 3}));
  };
}

std::unique_ptr<Model> make_resnet(const std::string& family, const ResnetConfig& c, uint64_t seed) {
  if (c.layers.size() != 4)
    fail("{}: layers has {} numbers, expected the blocks of 4 stages", family, c.layers.size());
  for (const int64_t blocks : c.layers) check_size(family, "layers", blocks, kMaxLayers);
  check_size(family, "groups", c.groups, vision::kMaxChannels);
  check_size(family, "width_per_group", c.width_per_group, vision::kMaxChannels);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  if (!c.bottleneck && (c.groups != 1 || c.width_per_group != 64))
    fail("{}: groups and width_per_group do something with bottleneck=true only", family);
  return vision::make_image_model(c.image_size, seed, {},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

Family family(const std::string& name, std::vector<int64_t> layers, bool bottleneck) {
  return {.name = name,
          .summary = "convolutional network for classes of pictures, with torchvision's names",
          .network =
              make_network(ResnetConfig{.layers = std::move(layers), .bottleneck = bottleneck}, make_resnet)};
}

}  // namespace

Family resnet18_family() { return family("resnet18", {2, 2, 2, 2}, false); }
Family resnet34_family() { return family("resnet34", {3, 4, 6, 3}, false); }
Family resnet50_family() { return family("resnet50", {3, 4, 6, 3}, true); }
Family resnet101_family() { return family("resnet101", {3, 4, 23, 3}, true); }
Family resnet152_family() { return family("resnet152", {3, 8, 36, 3}, true); }

}  // namespace genesis::models
