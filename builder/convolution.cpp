#include "builder/convolution.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// A WindowAxis says how a window moves along one spatial axis.
struct WindowAxis {
  int64_t window, stride, dilation, before, after;  // before, after: padding
  Dim positions;

  int64_t reach() const { return dilation * (window - 1) + 1; }
};

int64_t given_or(const std::vector<int64_t>& values, size_t axis, int64_t otherwise, size_t axes,
                 const char* what) {
  if (values.empty()) return otherwise;
  if (values.size() != axes) fail("{} has {} numbers for {} spatial axes", what, values.size(), axes);
  return values[axis];
}

Dim positions_of(const Dim& size, const WindowAxis& w, bool ceil_mode) {
  const Dim free = size + Dim(w.before + w.after - w.reach());
  if (!free.is_constant()) {
    if (w.stride == 1) return free + 1;
    fail("a window with stride {} needs a known size along its axis, which is {}", w.stride,
         size.to_string());
  }
  if (free.value() < 0)
    fail("a window of {} does not fit an axis of {} with its padding", w.reach(), size.to_string());
  int64_t positions = (free.value() + (ceil_mode ? w.stride - 1 : 0)) / w.stride + 1;
  // The last window begins inside of the axis or of the padding before it.
  if (ceil_mode && (positions - 1) * w.stride >= size.value() + w.before) --positions;
  return positions;
}

WindowAxis window_axis(int64_t window, int64_t stride, int64_t padding, int64_t dilation) {
  if (window < 1 || stride < 1 || dilation < 1 || padding < 0)
    fail("a window of {} with stride {}, padding {} and dilation {} is none", window, stride, padding,
         dilation);
  return {window, stride, dilation, padding, padding, 0};
}

// Pads the spatial axes; a last window may also need padding behind the end.
Value padded(Value x, const std::vector<WindowAxis>& axes, double value) {
  std::vector<int64_t> before(static_cast<size_t>(x.rank())), after = before;
  bool pads = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& w = axes[i];
    before[i + 2] = w.before;
    after[i + 2] = w.after;
    if (w.positions.is_constant() && x.dim(static_cast<int64_t>(i) + 2).is_constant())
      after[i + 2] = std::max(w.after, (w.positions.value() - 1) * w.stride + w.reach() -
                                           x.dim(static_cast<int64_t>(i) + 2).value() - w.before);
    pads = pads || before[i + 2] > 0 || after[i + 2] > 0;
  }
  return pads ? pad(x, before, after, value) : x;
}

// Returns, for each place in the window, the elements of x that it meets at all positions: [batch, channels, positions...].
std::vector<Value> places_of_window(Value x, const std::vector<WindowAxis>& axes) {
  std::vector<Value> places = {x};
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& w = axes[i];
    const auto axis = static_cast<int64_t>(i) + 2;
    std::vector<Value> next;
    for (const Value& place : places)
      for (int64_t at = 0; at < w.window; ++at) {
        const int64_t begin = at * w.dilation;
        next.push_back(w.stride == 1 ? narrow(place, axis, begin, w.positions)
                                     : slice(place, axis, begin,
                                             begin + (w.positions.value() - 1) * w.stride + 1, w.stride));
      }
    places = std::move(next);
  }
  return places;
}

std::vector<WindowAxis> pool_axes(Value x, const PoolOptions& options) {
  const size_t count = options.window.size();
  if (x.rank() != static_cast<int>(count) + 2)
    fail("a pool with a window of {} axes takes [batch, channels, ...] with as many spatial axes, not {}",
         count, x.type().to_string());
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < count; ++i) {
    const int64_t window = options.window[i];
    axes.push_back(window_axis(window, given_or(options.stride, i, window, count, "stride"),
                               given_or(options.padding, i, 0, count, "padding"),
                               given_or(options.dilation, i, 1, count, "dilation")));
    if (axes[i].before > window / 2)
      fail("a padding of {} is more than half the window of {}", axes[i].before, window);
    axes[i].positions = positions_of(x.dim(static_cast<int64_t>(i) + 2), axes[i], options.ceil_mode);
  }
  return axes;
}

Value combined(std::vector<Value> places, Value (*combine)(Value, Value)) {
  Value result = places[0];
  for (size_t i = 1; i < places.size(); ++i) result = combine(result, places[i]);
  return result;
}

// Returns the number of elements of x in each window.
Value counts_of(Value x, const std::vector<WindowAxis>& axes) {
  Shape one_image = x.shape();
  one_image[0] = one_image[1] = 1;
  return combined(places_of_window(padded(full(*x.graph, one_image, 1, x.dtype()), axes, 0), axes),
                  [](Value a, Value b) { return a + b; });
}

}  // namespace

Value conv(Value x, Value weight, Value bias, const ConvOptions& options) {
  const auto count = static_cast<size_t>(std::max(weight.rank() - 2, 0));
  if (count == 0 || x.rank() != weight.rank())
    fail(
        "a convolution takes x [batch, channels, ...] and a weight [out, in, ...] with as many axes, not {} "
        "and {}",
        x.type().to_string(), weight.type().to_string());
  const int64_t out = weight.dim(0).value(), in = weight.dim(1).value(), groups = options.groups;
  if (groups < 1 || out % groups != 0 || x.dim(1) != Dim(in * groups))
    fail("a convolution of {} by weights {} in {} groups: channels do not fit", x.type().to_string(),
         weight.type().to_string(), groups);
  std::vector<WindowAxis> axes;
  Dim positions = 1;
  int64_t window = 1;
  for (size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    axes.push_back(window_axis(weight.dim(axis).value(), given_or(options.stride, i, 1, count, "stride"),
                               given_or(options.padding, i, 0, count, "padding"),
                               given_or(options.dilation, i, 1, count, "dilation")));
    axes[i].positions = positions_of(x.dim(axis), axes[i], false);
    positions = positions * axes[i].positions;
    window *= axes[i].window;
  }
  const Value windows =
      stack(places_of_window(padded(x, axes, 0), axes), 2);  // [batch, channels, window, positions...]
  const Value columns = reshape(windows, {x.dim(0), groups, in * window, positions});
  Value y = matmul(reshape(weight, {groups, out / groups, in * window}), columns);
  Shape shape = {x.dim(0), out};
  for (const WindowAxis& axis : axes) shape.push_back(axis.positions);
  y = reshape(y, shape);
  if (!bias) return y;
  Shape by_channel(std::vector<Dim>(count + 1, Dim(1)));
  by_channel[0] = out;
  return y + reshape(bias, by_channel);
}

Value max_pool(Value x, const PoolOptions& options) {
  const std::vector<WindowAxis> axes = pool_axes(x, options);
  return combined(places_of_window(padded(x, axes, -std::numeric_limits<double>::infinity()), axes),
                  [](Value a, Value b) { return maximum(a, b); });
}

Value avg_pool(Value x, const PoolOptions& options) {
  const std::vector<WindowAxis> axes = pool_axes(x, options);
  const Value total =
      combined(places_of_window(padded(x, axes, 0), axes), [](Value a, Value b) { return a + b; });
  bool pads = options.ceil_mode;
  int64_t window = 1;
  for (const WindowAxis& w : axes) pads = pads || w.before > 0, window *= w.window;
  if (!pads || (options.count_padding && !options.ceil_mode)) return total / static_cast<double>(window);
  if (options.count_padding)
    fail("avg_pool with ceil_mode counts no padding here: expected count_padding = false");
  return total / counts_of(x, axes);
}

Value adaptive_avg_pool(Value x, const std::vector<int64_t>& sizes) {
  const auto count = static_cast<int64_t>(sizes.size());
  if (x.rank() != count + 2)
    fail("adaptive_avg_pool to {} axes takes [batch, channels, ...], not {}", count, x.type().to_string());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t axis = i + 2, parts = sizes[static_cast<size_t>(i)];
    if (parts < 1) fail("adaptive_avg_pool to a size of {}", parts);
    if (parts == 1) {
      x = mean(x, axis, true);
      continue;
    }
    const int64_t size = x.dim(axis).value();
    std::vector<Value> means;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = part * size / parts, end = ((part + 1) * size + parts - 1) / parts;
      means.push_back(mean(narrow(x, axis, begin, end - begin), axis, true));
    }
    x = concat(means, axis);
  }
  return x;
}

}  // namespace genesis
