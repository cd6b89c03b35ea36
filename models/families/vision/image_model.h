// Parts that the image models of the zoo share: their entry points, and the layers of torchvision that several of them have, with
// torchvision's names, so that a file of model.state_dict() fits (genesis-build NAME --weights FILE.safetensors).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/images/image_settings.h"
#include "schema/graph/model.h"

namespace genesis::models::vision {

inline constexpr int64_t kMaxImage = 1 << 14, kMaxChannels = 1 << 20;

// Makes a model of square RGB pictures. Entry points: forward  x f32[batch,3,size,size] -> logits;  loss  x, target i64 -> loss and
// accuracy f32[], the share of targets that are the most probable class. The logits are [batch, classes], or [batch, classes,
// height, width] with a target i64[batch, height, width]. `make` creates the network's layers. The metadata say how pictures are
// prepared.
std::unique_ptr<Model> make_image_model(int64_t image_size, uint64_t seed,
                                        const images::ImageSettings& settings,
                                        const std::function<nn::Layer(const Scope&)>& make);

// Rounds a number of channels to a multiple of 8, but not below nine tenths of it (torchvision's _make_divisible).
int64_t rounded_channels(double channels);

enum class Act : uint8_t { kNone, kRelu, kHardswish, kSilu };
Value activated(Value x, Act act);

struct ConvNormOptions {
  int64_t stride = 1, groups = 1;
  Act act = Act::kRelu;
  double eps = 1e-5, momentum = 0.1;
};
// A convolution without bias, padded to keep the size, batch norm and an activation: "0", "1" (Conv2dNormActivation).
class ConvNorm : public nn::Module<ConvNorm> {
 public:
  ConvNorm(const Scope& scope, int64_t in, int64_t out, int64_t kernel, const ConvNormOptions& options = {});
  Value forward(Value x) const { return activated(norm_(conv_(x)), act_); }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm2d norm_;
  Act act_;
};

// Scales channels by what two layers make of their means: "fc1", "fc2".
class SqueezeExcitation : public nn::Module<SqueezeExcitation> {
 public:
  // `gate` is the function of the scales: sigmoid or hardsigmoid.
  SqueezeExcitation(const Scope& scope, int64_t channels, int64_t squeezed, Act act, Value (*gate)(Value))
      : Module(scope),
        fc1_(scope / "fc1", channels, squeezed, {1}),
        fc2_(scope / "fc2", squeezed, channels, {1}),
        act_(act),
        gate_(gate) {}
  Value forward(Value x) const { return x * gate_(fc2_(activated(fc1_(mean(x, {2, 3}, true)), act_))); }

 private:
  nn::Conv2d fc1_, fc2_;
  Act act_;
  Value (*gate_)(Value);
};

// The initial values of convolutions in torchvision: normal, by the number of outputs that an element reaches.
nn::ConvLayerOptions conv_options(int64_t out, int64_t kernel, int64_t stride, int64_t groups, bool bias);

// Linear, GELU, Linear of a transformer, "0" and "3" (torchvision's MLP, whose dropout is "2" and "4").
class Mlp : public nn::Module<Mlp> {
 public:
  Mlp(const Scope& scope, int64_t features, int64_t hidden)
      : Module(scope), first_(scope / 0, features, hidden), second_(scope / 3, hidden, features) {}
  Value forward(Value x) const { return second_(gelu(first_(x))); }

 private:
  nn::Linear first_, second_;
};

}  // namespace genesis::models::vision
