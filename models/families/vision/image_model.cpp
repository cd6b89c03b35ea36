#include "models/families/vision/image_model.h"

#include <cmath>

#include "passes/training/add_loss.h"
#include "schema/ops/nn/loss.h"

namespace genesis::models::vision {

std::unique_ptr<Model> make_image_model(int64_t image_size, uint64_t seed,
                                        const images::ImageSettings& settings,
                                        const std::function<nn::Layer(const Scope&)>& make) {
  auto model = std::make_unique<Model>();
  const nn::Layer network = make(Scope(*model, seed));
  const Dim batch = symbol("batch");
  {
    GraphBuilder g(*model, "forward");
    g.output("logits", network(g.input("x", DType::f32, {batch, 3, image_size, image_size})));
  }
  {
    GraphBuilder g(*model, "loss", Mode::kTrain);
    const Value logits = network(g.input("x", DType::f32, {batch, 3, image_size, image_size}));
    std::vector<Dim> dims = logits.shape().dims();
    dims.erase(dims.begin() + 1);
    const Value target = g.input("target", DType::i64, Shape(dims));
    g.output("loss", cross_entropy(logits.rank() == 2 ? logits : movedim(logits, 1, -1), target));
    g.output("accuracy", passes::accuracy_of(logits, target, 1));
  }
  images::set_image_settings(model->metadata, settings);
  return model;
}

int64_t rounded_channels(double channels) {
  const int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

Value activated(Value x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return relu(x);
    case Act::kHardswish:
      return hardswish(x);
    case Act::kSilu:
      break;
  }
  return silu(x);
}

nn::ConvLayerOptions conv_options(int64_t out, int64_t kernel, int64_t stride, int64_t groups, bool bias) {
  const double reached = static_cast<double>(out * kernel * kernel);
  return {.conv = {.stride = {stride}, .padding = {(kernel - 1) / 2}, .groups = groups},
          .bias = bias,
          .init = init::normal(0, std::sqrt(2 / reached))};
}

ConvNorm::ConvNorm(const Scope& scope, int64_t in, int64_t out, int64_t kernel,
                   const ConvNormOptions& options)
    : Module(scope),
      conv_(scope / 0, in, out, {kernel}, conv_options(out, kernel, options.stride, options.groups, false)),
      norm_(scope / 1, out, options.eps, options.momentum),
      act_(options.act) {}

}  // namespace genesis::models::vision
