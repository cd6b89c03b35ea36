// Matrix products, convolutions and pooling.
#include <numeric>

#include "models/formats/onnx/export/rules.h"
#include "schema/core/error.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/pooling.h"

namespace genesis::models::onnx {
namespace {

// Swaps the last two of `rank` axes.
Out swapped(Emitter& e, const Out& x, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return e.transpose(x, axes);
}

Out product(Translation& t) {
  const auto op = t.as<ops::Matmul>();
  if (!op.is_one_product()) fail("a product with the epilogue of a gradient is not written");
  const DType dtype = t.result().dtype;
  Out a = t.e.cast(t.in(0), dtype), b = t.e.cast(t.in(1), dtype);
  if (op.transpose_a) a = swapped(t.e, a, t.rank(0));
  if (op.transpose_b) b = swapped(t.e, b, t.rank(1));
  const Out y = t.e.add("MatMul", {a, b});
  return t.count() > 2 ? t.e.add("Add", {y, t.e.cast(t.in(2), dtype)}) : y;
}

Out activated(Translation& t, const Out& x, Activation activation) {
  const auto gelu = [&](const char* kind) {
    return t.e.add("Gelu", {x}, onnx_attribute("approximate", std::string(kind)));
  };
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return t.e.add("Relu", {x});
    case Activation::kGelu:
      return gelu("none");
    case Activation::kGeluTanh:
      return gelu("tanh");
    case Activation::kSilu:
      return silu_of(t.e, x);
  }
  fail("an activation that is not written");
}

// The weight of a linear is [out, in]; it keeps its name and shape, and is transposed where it is read.
std::vector<Out> linear_rule(Translation& t) {
  const auto op = t.as<ops::Linear>();
  if (op.is_quantized()) fail("its weights are quantized: export the model as it was before --quantize");
  const DType dtype = t.result().dtype;
  Out x = t.e.cast(t.in(0), dtype);
  if (op.has_norm()) x = rms_norm_of(t.e, x, op.eps, 1, t.e.cast(t.in(1), dtype));
  const bool has_bias = op.has_bias(t.count());
  std::vector<Out> results;
  for (int64_t i = 0; i < op.weights; ++i) {
    const size_t at = static_cast<size_t>(i);
    Out y = t.e.add("MatMul", {x, t.e.transpose(t.e.cast(t.in(op.first_weight() + at), dtype), {1, 0})});
    if (has_bias) y = t.e.add("Add", {y, t.e.cast(t.in(op.first_bias() + at), dtype)});
    if (op.has_addend) y = t.e.add("Add", {y, t.e.cast(t.in(t.count() - 1), dtype)});
    results.push_back(activated(t, y, op.activation));
  }
  if (op.epilogue == ops::LinearEpilogue::kNone) return results;
  if (op.epilogue == ops::LinearEpilogue::kSwiglu)
    return {t.e.add("Mul", {silu_of(t.e, results[0]), results[1]})};
  const auto halves = t.e.add_several(
      "Split", {results[0]}, onnx_attribute("axis", int64_t{-1}) + onnx_attribute("num_outputs", int64_t{2}),
      {dtype, dtype});
  results.push_back(t.e.add("Mul", {silu_of(t.e, halves[0]), halves[1]}));
  return results;
}

// --- windows

std::string window_attributes(const Windows& windows) {
  if (windows.channels_last) fail("it has its channels last, and ONNX has them behind the batch");
  std::vector<int64_t> pads = windows.pads_begin;
  pads.insert(pads.end(), windows.pads_end.begin(), windows.pads_end.end());
  return onnx_attribute("strides", windows.strides) + onnx_attribute("dilations", windows.dilations) +
         onnx_attribute("pads", pads);
}

// A number for each channel, as a tensor that broadcasts with x [batch, channels, ...].
Out by_channel(Translation& t, const Out& x) {
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis + 1 < t.rank(); ++axis) axes.push_back(axis);
  return t.e.unsqueeze(x, axes);
}

Out convolved(Translation& t) {
  const auto op = t.as<ops::Convolution>();
  const DType dtype = t.result().dtype;
  const auto operand = [&](int place) { return t.e.cast(t.in(static_cast<size_t>(place)), dtype); };
  std::vector<Out> inputs = {operand(0), operand(1)};
  const bool bias_is_inside = op.has_bias && !op.has_scale;
  if (bias_is_inside) inputs.push_back(operand(op.bias_input()));
  Out y = t.e.add("Conv", inputs, window_attributes(op.windows) + onnx_attribute("group", op.groups));
  if (op.has_scale) y = t.e.add("Mul", {y, by_channel(t, operand(2))});
  if (op.has_bias && !bias_is_inside) y = t.e.add("Add", {y, by_channel(t, operand(op.bias_input()))});
  if (op.has_addend) y = t.e.add("Add", {y, operand(op.addend_input())});
  switch (op.activation) {
    case ConvolutionActivation::kNone:
      return y;
    case ConvolutionActivation::kRelu:
      return t.e.add("Relu", {y});
    case ConvolutionActivation::kRelu6:
      return t.e.add("Clip", {y, t.e.number(0, dtype), t.e.number(6, dtype)});
    case ConvolutionActivation::kHardswish:
      return t.e.add("HardSwish", {y});
    default:
      break;
  }
  fail("an activation that is not written");
}

Out transposed_convolution(Translation& t) {
  const auto op = t.as<ops::ConvolutionTransposed>();
  const Windows& w = op.windows;
  std::vector<int64_t> more;
  for (size_t i = 0; i < w.axes(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const Dim usual = (t.shape(0)[axis] - 1) * w.strides[i] - w.pads_begin[i] - w.pads_end[i] +
                      (t.shape(1)[axis] - 1) * w.dilations[i] + 1;
    more.push_back((op.sizes[static_cast<int>(i)] - usual).value());
  }
  return t.e.add(
      "ConvTranspose", {t.in(0), t.in(1)},
      window_attributes(w) + onnx_attribute("group", op.groups) + onnx_attribute("output_padding", more));
}

Out greatest_in_windows(Translation& t) {
  const auto op = t.as<ops::MaxPool>();
  return t.e.add("MaxPool", {t.in()},
                 window_attributes(op.windows) + onnx_attribute("kernel_shape", op.window) +
                     onnx_attribute("ceil_mode", int64_t{op.ceil_mode}));
}
Out mean_of_windows(Translation& t) {
  const auto op = t.as<ops::AveragePool>();
  return t.e.add("AveragePool", {t.in()},
                 window_attributes(op.windows) + onnx_attribute("kernel_shape", op.window) +
                     onnx_attribute("ceil_mode", int64_t{op.ceil_mode}) +
                     onnx_attribute("count_include_pad", int64_t{op.count_padding}));
}

}  // namespace

const OpRules& product_rules() {
  static const OpRules kRules = {
      {"average_pool", single<mean_of_windows>},
      {"convolution", single<convolved>},
      {"convolution_transposed", single<transposed_convolution>},
      {"linear", linear_rule},
      {"matmul", single<product>},
      {"max_pool", single<greatest_in_windows>},
  };
  return kRules;
}

}  // namespace genesis::models::onnx
