// Operators that move a window over spatial axes: convolution and pooling.
#include <algorithm>
#include <limits>

#include "builder/convolution.h"
#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "models/formats/onnx/quantization.h"
#include "models/formats/onnx/windows.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

Value convolve(Call& call, Value x, Value weight, Value bias) {
  std::vector<int64_t> window = call.list("kernel_shape");
  if (window.empty())
    for (int axis = 2; axis < weight.rank(); ++axis) window.push_back(weight.dim(axis).value());
  const WindowAttributes w = windows_of(call, x, window);
  ConvOptions options{.stride = w.stride, .dilation = w.dilation, .groups = call.attribute("group", 1)};
  if (w.crops())
    x = padded_by(x, w, 0);
  else
    options.padding = w.before, options.padding_end = w.after;
  return conv(x, weight, bias, options);
}
Value convolved(Call& call) { return convolve(call, call.tensor(0), call.tensor(1), call.tensor_or(2, {})); }

Value minus_zero_point(Value x, Value zero, bool by_row) {
  const Value wide = cast(x, DType::f32);
  if (!zero) return wide;
  Value z = cast(zero, DType::f32);
  if (by_row && z.rank() == 1) {
    Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
    shape[0] = z.dim(0);
    z = reshape(z, shape);
  }
  return wide - z;
}
Value integer_convolution(Call& call) {
  const Value x = minus_zero_point(call.tensor(0), call.tensor_or(2, {}), false),
              weight = minus_zero_point(call.tensor(1), call.tensor_or(3, {}), true);
  return cast(convolve(call, x, weight, {}), DType::i32);
}
// x, scale, zero point, weight, scale, zero point, scale and zero point of y, bias.
Value quantized_convolution(Call& call) {
  const Value x = minus_zero_point(call.tensor(0), call.tensor(2), false),
              weight = minus_zero_point(call.tensor(3), call.tensor(5), true);
  const Value y = convolve(call, x, weight, call.has(8) ? cast(call.tensor(8), DType::f32) : Value{});
  Value scale = call.tensor(1) * call.tensor(4) / call.tensor(6);
  if (scale.rank() == 1) {
    Shape shape(std::vector<Dim>(static_cast<size_t>(y.rank()) - 1, Dim(1)));
    shape[0] = scale.dim(0);
    scale = reshape(scale, shape);
  }
  return saturated(round(y * scale) + cast(call.tensor(7), DType::f32), call.element(7));
}

// Puts stride - 1 zeros between the elements of each spatial axis.
Value spread(Value x, const std::vector<int64_t>& stride) {
  for (size_t i = 0; i < stride.size(); ++i) {
    if (stride[i] == 1) continue;
    const auto axis = static_cast<int>(i) + 2;
    std::vector<int64_t> before(static_cast<size_t>(x.rank()) + 1), after = before;
    after[static_cast<size_t>(axis) + 1] = stride[i] - 1;
    Shape shape = x.shape();
    shape[axis] = shape[axis] * stride[i];
    x = narrow(reshape(pad(unsqueeze(x, axis + 1), before, after), shape), axis, 0,
               shape[axis] - (stride[i] - 1));
  }
  return x;
}

// The amounts that a transposed convolution cuts off at both ends of its result.
void set_cuts(Call& call, Value x, const std::vector<int64_t>& window, WindowAttributes& w,
              std::vector<int64_t>& extra) {
  const std::vector<int64_t> sizes = call.list("output_shape");
  const std::string kind = call.text("auto_pad", "NOTSET");
  if (sizes.empty() && (kind == "NOTSET" || kind == "VALID")) return;
  for (size_t i = 0; i < window.size(); ++i) {
    const int64_t size = x.dim(static_cast<int64_t>(i) + 2).value(),
                  reach = (window[i] - 1) * w.dilation[i] + 1;
    const size_t skip = sizes.size() > window.size() ? 2 : 0;
    const int64_t wanted = sizes.empty() ? size * w.stride[i] : sizes.at(i + skip);
    const int64_t total = (size - 1) * w.stride[i] + extra[i] + reach - wanted;
    const int64_t less = total / 2, more = total - less;
    w.before[i] = kind == "SAME_UPPER" ? less : more;
    w.after[i] = total - w.before[i];
    if (kind != "SAME_UPPER" && kind != "SAME_LOWER") w.before[i] = less, w.after[i] = more;
    if (total < 0) w.before[i] = 0, w.after[i] = 0, extra[i] -= total;
  }
}

Value transposed_convolution(Call& call) {
  const Value x = call.tensor(0), weight = call.tensor(1);
  std::vector<int64_t> window, spatial;
  for (int axis = 2; axis < weight.rank(); ++axis)
    window.push_back(weight.dim(axis).value()), spatial.push_back(axis);
  call.accept_any("kernel_shape");
  const size_t count = window.size();
  WindowAttributes w = plain_windows(call, window);
  std::vector<int64_t> extra = call.list("output_padding", std::vector<int64_t>(count, 0));
  set_cuts(call, x, window, w, extra);
  const int64_t groups = call.attribute("group", 1), in = weight.dim(0).value(), out = weight.dim(1).value();
  bool fits = !w.crops();
  for (size_t i = 0; i < count; ++i) fits = fits && extra[i] >= 0 && extra[i] < w.stride[i];
  if (fits)
    return conv_transpose(x, weight, call.tensor_or(2, {}),
                          {.stride = w.stride,
                           .padding = w.before,
                           .dilation = w.dilation,
                           .groups = groups,
                           .padding_end = w.after},
                          extra);
  Shape split = {groups, in / groups, out}, joined = {groups * out, in / groups};
  std::vector<int64_t> axes = {0, 2, 1};
  for (size_t i = 0; i < count; ++i)
    split.push_back(window[i]), joined.push_back(window[i]), axes.push_back(static_cast<int64_t>(i) + 3);
  const Value kernel = flip(reshape(permute(reshape(weight, split), axes), joined), spatial);
  std::vector<int64_t> before(count + 2), after(count + 2);
  for (size_t i = 0; i < count; ++i) {
    const int64_t margin = w.dilation[i] * (window[i] - 1);
    before[i + 2] = margin - w.before[i], after[i + 2] = margin - w.after[i] + extra[i];
  }
  return conv(pad(spread(x, w.stride), before, after), kernel, call.tensor_or(2, {}),
              {.dilation = w.dilation, .groups = groups});
}

// --- pools

// Pools compute integers of 8 bits in f32.
Value in_reals(Value x) { return is_float(x.dtype()) ? x : cast(x, DType::f32); }

// The place in the whole tensor of the greatest element of each window.
Value places_of_greatest(Call& call, Value x, const WindowAttributes& w, bool by_column) {
  const int spatial = x.rank() - 2;
  Dim area = 1;
  for (int axis = 2; axis < x.rank(); ++axis) area = area * x.dim(axis);
  Shape one_image = {1, 1};
  for (int i = 0; i < spatial; ++i) one_image.push_back(x.dim(i + 2));
  Value numbers = reshape(arange(call.graph(), area), one_image);
  if (by_column) {
    Shape reversed = {1, 1};
    std::vector<int64_t> axes = {0, 1};
    for (int i = spatial - 1; i >= 0; --i) reversed.push_back(x.dim(i + 2)), axes.push_back(i + 2);
    numbers = permute(reshape(arange(call.graph(), area), reversed), axes);
  }
  const Value windows =
      stack(places_in_windows(padded_for(x, w, -std::numeric_limits<double>::infinity()), w), -1);
  const Value sources = stack(places_in_windows(padded_for(numbers, w, 0), w), -1);
  const Value best = argmax(windows, -1, true);
  const Value place = squeeze(gather(expand(sources, windows.shape()), windows.rank() - 1, best), -1);
  const Value images = reshape(arange(call.graph(), x.dim(0) * x.dim(1)), {x.dim(0), x.dim(1)});
  Shape by_image = {x.dim(0), x.dim(1)};
  for (int i = 0; i < spatial; ++i) by_image.push_back(1);
  return place + reshape(images * dim_value(call.graph(), area), by_image);
}

Results max_pooled(Call& call) {
  const Value given = call.tensor(0), x = in_reals(given);
  const WindowAttributes w = windows_of(call, x, call.list("kernel_shape"));
  const bool by_column = call.attribute("storage_order", 0) != 0;
  constexpr double kMinimum = -std::numeric_limits<double>::infinity();
  PoolOptions options{.window = w.window, .stride = w.stride, .dilation = w.dilation};
  const bool fits = w.is_small();
  if (fits) options.padding = w.before, options.padding_end = w.after, options.ceil_mode = w.overhangs;
  Results results = {item_of(cast(max_pool(fits ? x : padded_for(x, w, kMinimum), options), given.dtype()))};
  if (call.wants(1)) results.push_back(item_of(places_of_greatest(call, x, w, by_column)));
  return results;
}

Value average_pooled(Call& call) {
  const Value x = call.tensor(0);
  WindowAttributes w = windows_of(call, x, call.list("kernel_shape"));
  const bool counts_padding = call.attribute("count_include_pad", 0) != 0;
  if (w.is_small())
    return avg_pool(x, {.window = w.window,
                        .stride = w.stride,
                        .padding = w.before,
                        .dilation = w.dilation,
                        .ceil_mode = w.overhangs,
                        .count_padding = counts_padding,
                        .padding_end = w.after});
  Shape one_image = x.shape();
  one_image[0] = one_image[1] = 1;
  Value ones = call.g().ones(one_image, x.dtype());
  const WindowAttributes overhang = counts_padding ? w.without_padding() : w;
  if (counts_padding) ones = padded_by(ones, w, 1);
  return window_sums(x, w) / window_sums(ones, overhang);
}

Value power_pooled(Call& call) {
  const Value x = call.tensor(0);
  const WindowAttributes w = windows_of(call, x, call.list("kernel_shape"));
  const double p = call.version() < 2 ? call.real("p", 2) : static_cast<double>(call.attribute("p", 2));
  if (p == 2) return sqrt(window_sums(square(x), w));
  return pow(window_sums(pow(abs(x), p), w), 1 / p);
}

AxisList spatial_axes(Value x) {
  Axes axes;
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}
Value mean_of_image(Call& call) { return mean(call.tensor(0), spatial_axes(call.tensor(0)), true); }
Value greatest_of_image(Call& call) { return max(call.tensor(0), spatial_axes(call.tensor(0)), true); }
Value power_of_image(Call& call) {
  const Value x = call.tensor(0);
  const auto p = static_cast<double>(call.attribute("p", 2));
  return pow(sum(pow(abs(x), p), spatial_axes(x), true), 1 / p);
}

// Writes each element to its place in a larger image of zeros.
Value unpooled(Call& call) {
  const Value x = call.tensor(0), places = call.tensor(1);
  const std::vector<int64_t> window = call.list("kernel_shape");
  const WindowAttributes w = plain_windows(call, window);
  Shape whole = {x.dim(0), x.dim(1)};
  for (size_t i = 0; i < window.size(); ++i)
    whole.push_back((x.dim(static_cast<int64_t>(i) + 2) - 1) * w.stride[i] + window[i] - w.before[i] -
                    w.after[i]);
  const Value zeros = call.g().zeros({whole.numel()}, x.dtype());
  const Dim count = x.shape().numel();
  const Value image = reshape(scatter(zeros, 0, reshape(places, {count}), reshape(x, {count})), whole);
  if (!call.has(2)) return image;
  const std::vector<int64_t> sizes = call.integers(2);
  std::vector<int64_t> before(sizes.size()), after(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) after[i] = sizes[i] - whole[static_cast<int>(i)].value();
  return pad(image, before, after);
}

// Adds the columns of windows where they were in an image.
Value image_from_columns(Call& call) {
  const Value x = call.tensor(0);
  const std::vector<int64_t> sizes = call.integers(1), window = call.integers(2);
  const WindowAttributes w = plain_windows(call, window);
  int64_t area = 1;
  for (const int64_t size : window) area *= size;
  Shape columns = {x.dim(0), *x.dim(1).divide_exact(area), area};
  std::vector<int64_t> positions;
  for (size_t i = 0; i < window.size(); ++i) {
    const int64_t reach = (window[i] - 1) * w.dilation[i] + 1;
    positions.push_back((sizes[i] + w.before[i] + w.after[i] - reach) / w.stride[i] + 1);
    columns.push_back(positions[i]);
  }
  const Value all = reshape(x, columns);
  Value image;
  for (int64_t place = 0; place < area; ++place) {
    std::vector<int64_t> before(window.size() + 2), after = before;
    int64_t rest = place;
    for (size_t k = window.size(); k-- > 0; rest /= window[k]) {
      const int64_t at = rest % window[k] * w.dilation[k], length = (positions[k] - 1) * w.stride[k] + 1;
      before[k + 2] = at - w.before[k], after[k + 2] = sizes[k] - length - before[k + 2];
    }
    const Value part = pad(spread(select(all, 2, place), w.stride), before, after);
    image = image ? image + part : part;
  }
  return image;
}

// A depthwise convolution over time whose left padding is the end of the time before.
Results causal_convolution(Call& call) {
  const Value x = call.tensor(0), weight = call.tensor(1);
  const int64_t channels = weight.dim(0).value(), reach = weight.dim(2).value() - 1;
  const std::string activation = call.text("activation", "none");
  const Value state = call.has(3) ? call.tensor(3) : call.g().zeros({x.dim(0), channels, reach}, x.dtype());
  const Value joined = concat({state, x}, 2);
  Value y = conv(joined, weight, call.tensor_or(2, {}), {.groups = channels});
  if (activation == "silu" || activation == "swish")
    y = silu(y);
  else if (activation != "none")
    fail("its activation is '{}'", activation);
  return {item_of(y), item_of(narrow(joined, 2, joined.dim(2) - reach, reach))};
}

}  // namespace

const Operators& window_operators() {
  static const Operators kOperators = {
      {"AveragePool", one<average_pooled>},
      {"CausalConvWithState", causal_convolution},
      {"Col2Im", one<image_from_columns>},
      {"Conv", one<convolved>},
      {"ConvInteger", one<integer_convolution>},
      {"ConvTranspose", one<transposed_convolution>},
      {"GlobalAveragePool", one<mean_of_image>},
      {"GlobalLpPool", one<power_of_image>, 2},
      {"GlobalMaxPool", one<greatest_of_image>},
      {"LpPool", one<power_pooled>},
      {"MaxPool", max_pooled},
      {"MaxUnpool", one<unpooled>},
      {"QLinearConv", one<quantized_convolution>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
