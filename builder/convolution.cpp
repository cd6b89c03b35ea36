#include "builder/convolution.h"

#include <algorithm>
#include <optional>

#include "schema/core/error.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

std::vector<int64_t> given_or(const std::vector<int64_t>& values, const std::vector<int64_t>& otherwise) {
  return values.empty() ? otherwise : values;
}

template <class Options>
Windows windows_of(const Options& options, const std::vector<int64_t>& stride, size_t axes) {
  const std::vector<int64_t> ones(axes, 1), begin = given_or(options.padding, std::vector<int64_t>(axes, 0));
  return {given_or(options.stride, stride), given_or(options.dilation, ones), begin,
          given_or(options.padding_end, begin)};
}

// Returns the sizes of a weight's window. Throws Error unless it has spatial axes.
std::vector<int64_t> window_of(std::string_view what, Value x, Value weight) {
  if (weight.rank() < 3 || x.rank() != weight.rank())
    fail(
        "{} takes x [batch, channels, ...] and a weight [.., .., window...] with as many axes, not {} and {}",
        what, x.type().to_string(), weight.type().to_string());
  std::vector<int64_t> window;
  for (int axis = 2; axis < weight.rank(); ++axis) window.push_back(weight.dim(axis).value());
  return window;
}

Value by_channel(Value x, Value parameter) {
  Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()) - 1, Dim(1)));
  shape[0] = x.dim(1);
  return reshape(parameter, shape);
}

template <class Op>
Value pooled(Op op, Value x, const PoolOptions& options) {
  op.windows = windows_of(options, options.window, options.window.size());
  op.window = options.window;
  op.ceil_mode = options.ceil_mode;
  return emit(op, {x});
}

// Reduces each axis to `sizes` ranges, one axis after the other.
template <class Reduce>
Value adaptive(const char* what, Value x, const std::vector<int64_t>& sizes, const Reduce& reduce) {
  if (x.rank() != static_cast<int>(sizes.size()) + 2)
    fail("{} to {} axes takes [batch, channels, ...], not {}", what, sizes.size(), x.type().to_string());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2, parts = sizes[i];
    if (parts < 1) fail("{} to a size of {}", what, parts);
    if (parts == 1) {
      x = reduce(x, axis);
      continue;
    }
    const int64_t size = x.dim(axis).value();
    std::vector<Value> ranges;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = part * size / parts, end = ((part + 1) * size + parts - 1) / parts;
      ranges.push_back(reduce(narrow(x, axis, begin, end - begin), axis));
    }
    x = concat(ranges, axis);
  }
  return x;
}

// Returns the options of windows that divide every axis evenly; empty if they do not.
std::optional<PoolOptions> even_windows(Value x, const std::vector<int64_t>& sizes) {
  PoolOptions options;
  for (size_t i = 0; i < sizes.size() && x.rank() == static_cast<int>(sizes.size()) + 2; ++i) {
    const Dim& size = x.dim(static_cast<int64_t>(i) + 2);
    if (sizes[i] < 1 || !size.is_constant() || size.value() % sizes[i] != 0 || size == Dim(0))
      return std::nullopt;
    options.window.push_back(size.value() / sizes[i]);
  }
  const bool is_possible = !options.window.empty() && options.window.size() <= kMaxSpatialAxes;
  const bool is_mean = std::ranges::all_of(sizes, [](int64_t n) { return n == 1; });
  return is_possible && !is_mean ? std::optional(options) : std::nullopt;
}

}  // namespace

Value conv(Value x, Value weight, Value bias, const ConvOptions& options) {
  const size_t axes = window_of("a convolution", x, weight).size();
  return convolution(
      {.windows = windows_of(options, std::vector<int64_t>(axes, 1), axes), .groups = options.groups},
      {.x = x, .weight = weight, .bias = bias});
}

Value conv_transpose(Value x, Value weight, Value bias, const ConvOptions& options,
                     const std::vector<int64_t>& output_padding) {
  const std::vector<int64_t> window = window_of("a transposed convolution", x, weight);
  const Windows windows = windows_of(options, std::vector<int64_t>(window.size(), 1), window.size());
  check_windows("conv_transpose", windows, window);
  const std::vector<int64_t> more = given_or(output_padding, std::vector<int64_t>(window.size(), 0));
  if (more.size() != window.size())
    fail("output_padding has {} numbers for {} spatial axes", more.size(), window.size());
  Shape sizes;
  for (size_t i = 0; i < window.size(); ++i) {
    if (more[i] < 0 || more[i] >= windows.strides[i])
      fail("output_padding {} must be less than the stride {}", more[i], windows.strides[i]);
    const int64_t reach = windows.dilations[i] * (window[i] - 1) + 1;
    sizes.push_back((x.dim(static_cast<int64_t>(i) + 2) - 1) * windows.strides[i] +
                    Dim(reach + more[i] - windows.pads_begin[i] - windows.pads_end[i]));
  }
  const Value y =
      convolution_transposed({.windows = windows, .groups = options.groups, .sizes = sizes}, x, weight);
  return bias ? y + by_channel(y, bias) : y;
}

ConvOptions same_padding(Value x, const std::vector<int64_t>& window, ConvOptions options, bool lower) {
  const size_t axes = window.size();
  const std::vector<int64_t> ones(axes, 1), stride = given_or(options.stride, ones),
                                            dilation = given_or(options.dilation, ones);
  options.padding.assign(axes, 0), options.padding_end.assign(axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t size = x.dim(static_cast<int64_t>(i) + 2).value(),
                  positions = (size + stride[i] - 1) / stride[i];
    const int64_t total =
        std::max<int64_t>(0, (positions - 1) * stride[i] + dilation[i] * (window[i] - 1) + 1 - size);
    options.padding[i] = lower ? total - total / 2 : total / 2;
    options.padding_end[i] = total - options.padding[i];
  }
  return options;
}

Value max_pool(Value x, const PoolOptions& options) { return pooled(ops::MaxPool{}, x, options); }

Value avg_pool(Value x, const PoolOptions& options) {
  ops::AveragePool op;
  op.count_padding = options.count_padding;
  return pooled(op, x, options);
}

Value lp_pool(Value x, double p, const PoolOptions& options) {
  if (!(p > 0)) fail("lp_pool takes a power above 0, got {}", p);
  double elements = 1;
  for (const int64_t size : options.window) elements *= static_cast<double>(size);
  PoolOptions whole = options;
  whole.count_padding = true;
  const Value powers = p == 1 ? abs(x) : p == 2 ? x * x : pow(abs(x), p);
  const Value sums = avg_pool(powers, whole) * elements;
  return p == 1 ? sums : p == 2 ? sqrt(sums) : pow(sums, 1 / p);
}

Value adaptive_avg_pool(Value x, const std::vector<int64_t>& sizes) {
  if (const auto even = even_windows(x, sizes)) return avg_pool(x, *even);
  return adaptive("adaptive_avg_pool", x, sizes,
                  [](Value part, int64_t axis) { return mean(part, axis, true); });
}

Value adaptive_max_pool(Value x, const std::vector<int64_t>& sizes) {
  if (const auto even = even_windows(x, sizes)) return max_pool(x, *even);
  return adaptive("adaptive_max_pool", x, sizes,
                  [](Value part, int64_t axis) { return max(part, axis, true); });
}

Value group_norm(Value x, int64_t groups, Value weight, Value bias, double eps) {
  Dim length = 1;
  for (int axis = 1; axis < x.rank(); ++axis) length = length * x.dim(axis);
  const auto each = length.divide_exact(groups);
  if (groups < 1 || !each || !x.dim(1).divide_exact(groups))
    fail("{} channels are not divided into {} equal groups", x.dim(1).to_string(), groups);
  Value y = reshape(layer_norm(reshape(x, {x.dim(0), groups, *each}), {}, {}, eps, 1), x.shape());
  if (weight) y = y * by_channel(x, weight);
  return bias ? y + by_channel(x, bias) : y;
}

}  // namespace genesis
