#include "builder/vision/regions.h"

#include <vector>

#include "builder/functions.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

struct Samples {
  Value low, high, ratio, is_inside;  // [regions, samples]
};
Samples samples_along(Value begin, Value length, int64_t bins, int64_t each, int64_t size) {
  const auto count = static_cast<double>(each);
  const Value offsets =
      unsqueeze(arange(*begin.graph, bins * each, 0.5 / count, 1 / count, begin.dtype()), 0);
  const Value at = unsqueeze(begin, 1) + offsets * unsqueeze(length / static_cast<double>(bins), 1);
  const auto last = static_cast<double>(size - 1);
  const Value place = clamp(at, 0, last), low = floor(place);
  return {low, clamp(low + 1.0, 0, last), place - low,
          logical_and(at >= -1.0, at <= static_cast<double>(size))};
}

// The places of taps along one axis, [1, 1, taps, rows, columns] without their offsets.
Value tap_places(Value like, const DeformConvOptions& options, size_t axis, const Shape& shape, int64_t taps,
                 int64_t other_taps) {
  Graph& graph = *like.graph;
  const Value steps =
      arange(graph, shape[3 + static_cast<int>(axis)], static_cast<double>(-options.padding[axis]),
             static_cast<double>(options.stride[axis]), like.dtype());
  const Value window = arange(graph, taps, 0, static_cast<double>(options.dilation[axis]), like.dtype());
  const Value by_tap = axis == 0 ? expand(unsqueeze(window, 1), {taps, other_taps})
                                 : expand(unsqueeze(window, 0), {other_taps, taps});
  Shape rows(std::vector<Dim>(5, Dim(1)));
  rows[3 + static_cast<int>(axis)] = steps.dim(0);
  return reshape(by_tap, {1, 1, taps * other_taps, 1, 1}) + reshape(steps, rows);
}

// One of the four pixels around places: x [batch, groups, channels, area] at rows and columns [batch, groups, 1, places], 0 outside.
Value corner(Value x, Value row, Value column, double height, double width) {
  const Value is_inside = logical_and(logical_and(row >= 0.0, row <= height - 1),
                                      logical_and(column >= 0.0, column <= width - 1));
  // In f16, places beyond 2048 are not exact.
  const Value place = cast(clamp(row, 0, height - 1), DType::i64) * static_cast<int64_t>(width) +
                      cast(clamp(column, 0, width - 1), DType::i64);
  Shape shape = x.shape();
  shape[3] = place.dim(3);
  return where(is_inside, gather(x, 3, expand(place, shape)), Scalar(0.0));
}

Value bilinear(Value x, Value y_at, Value x_at, double height, double width) {
  const Value top = floor(y_at), left = floor(x_at), down = y_at - top, right = x_at - left;
  const Value upper =
      corner(x, top, left, height, width) * (1.0 - right) + corner(x, top, left + 1.0, height, width) * right;
  const Value lower = corner(x, top + 1.0, left, height, width) * (1.0 - right) +
                      corner(x, top + 1.0, left + 1.0, height, width) * right;
  return upper * (1.0 - down) + lower * down;
}

// Refuses offsets for other places than those of the convolution, as far as sizes are known.
void check_places(Value x, Value offset, Value weight, const DeformConvOptions& options) {
  for (const int axis : {0, 1}) {
    const auto i = static_cast<size_t>(axis);
    const Dim size = x.dim(2 + axis), window = weight.dim(2 + axis), found = offset.dim(2 + axis);
    if (!size.is_constant() || !found.is_constant()) continue;
    const int64_t padding = options.padding[i] + options.end_padding.value_or(options.padding)[i];
    const int64_t room = size.value() + padding - options.dilation[i] * (window.value() - 1) - 1;
    const int64_t expected = room < 0 ? 0 : room / options.stride[i] + 1;
    if (found.value() != expected)
      fail("deform_conv2d reads {} with offsets {}: expected {} {} of them, as the convolution by {} has",
           x.type().to_string(), offset.type().to_string(), expected, axis == 0 ? "rows" : "columns",
           weight.type().to_string());
  }
}

}  // namespace

Value roi_align(Value x, Value boxes, Value images, const RoiAlignOptions& options) {
  const int64_t height = options.height, width = options.width, each = options.samples;
  constexpr int64_t kMax = 4096;
  if (each < 1 || height < 1 || width < 1 || each > kMax || height > kMax || width > kMax)
    fail(
        "roi_align has {} samples in {} x {} bins: expected 1 to {} each (a number of samples that follows "
        "from the size of a region depends on data)",
        each, height, width, kMax);
  const auto side = [&](int64_t i) {
    return select(boxes, 1, i) * options.scale - (options.aligned ? 0.5 : 0.0);
  };
  const auto extent = [&](Value begin, Value end) {
    return options.aligned ? end - begin : maximum(end - begin, Scalar(1.0));
  };
  const Value left = side(0), top = side(1);
  const Samples ys = samples_along(top, extent(top, side(3)), height, each, x.dim(2).value());
  const Samples xs = samples_along(left, extent(left, side(2)), width, each, x.dim(3).value());
  const Value taken = index_select(x, 0, cast(images, DType::i64));
  const Dim count = boxes.dim(0);
  const Value flat = reshape(taken, {count, x.dim(1), x.dim(2) * x.dim(3)});
  const int64_t samples = height * each * width * each;
  const Value is_inside = logical_and(unsqueeze(ys.is_inside, 2), unsqueeze(xs.is_inside, 1));
  Value total;
  for (const bool is_low : {true, false})
    for (const bool is_left : {true, false}) {
      const Value rows = unsqueeze(is_low ? ys.low : ys.high, 2),
                  columns = unsqueeze(is_left ? xs.low : xs.high, 1);
      const Value places =
          reshape(cast(rows, DType::i64) * x.dim(3).value() + cast(columns, DType::i64), {count, 1, samples});
      const Value weight = unsqueeze(is_low ? 1.0 - ys.ratio : ys.ratio, 2) *
                           unsqueeze(is_left ? 1.0 - xs.ratio : xs.ratio, 1);
      const Value shown = reshape(where(is_inside, weight, Scalar(0.0)), {count, 1, samples});
      const Value part = gather(flat, 2, expand(places, {count, x.dim(1), samples})) * shown;
      total = !total ? part : options.takes_max ? maximum(total, part) : total + part;
    }
  const Value bins = reshape(total, {count, x.dim(1), height, each, width, each});
  return options.takes_max ? max(bins, {3, 5}) : mean(bins, {3, 5});
}

Value deform_conv2d(Value x, Value offset, Value weight, Value bias, Value mask,
                    const DeformConvOptions& options) {
  if (x.rank() != 4 || weight.rank() != 4 || offset.rank() != 4)
    fail("deform_conv2d reads {} with offsets {} and weights {}: expected four axes each",
         x.type().to_string(), offset.type().to_string(), weight.type().to_string());
  const int64_t rows = weight.dim(2).value(), columns = weight.dim(3).value(), taps = rows * columns;
  const Dim batch = x.dim(0), groups = options.offset_groups, channels = x.dim(1), area = x.dim(2) * x.dim(3);
  const auto each = channels.divide_exact(options.offset_groups),
             out = weight.dim(0).divide_exact(options.groups);
  if (!each || !out || !(weight.dim(1) * options.groups == channels) ||
      !(offset.dim(1) == groups * (2 * taps)))
    fail("{} groups, {} of offsets, do not fit channels of {}, offsets {} and weights {}", options.groups,
         options.offset_groups, x.type().to_string(), offset.type().to_string(), weight.type().to_string());
  check_places(x, offset, weight, options);
  const auto height = static_cast<double>(x.dim(2).value()), width = static_cast<double>(x.dim(3).value());
  const Shape shape = {batch, groups, taps, offset.dim(2), offset.dim(3)};
  const Value by_tap = reshape(offset, {batch, groups, taps, 2, offset.dim(2), offset.dim(3)});
  const Dim places = Dim(taps) * offset.dim(2) * offset.dim(3);
  const auto at = [&](size_t axis) {
    const Value own = axis == 0 ? tap_places(offset, options, 0, shape, rows, columns)
                                : tap_places(offset, options, 1, shape, columns, rows);
    return reshape(select(by_tap, 3, static_cast<int64_t>(axis)) + own, {batch, groups, 1, places});
  };
  Value taken = bilinear(reshape(x, {batch, groups, *each, area}), at(0), at(1), height, width);
  if (mask) taken = taken * reshape(mask, {batch, groups, 1, places});
  const Dim inner = weight.dim(1) * taps, positions = offset.dim(2) * offset.dim(3);
  const Value product = matmul(reshape(weight, {1, options.groups, *out, inner}),
                               reshape(taken, {batch, options.groups, inner, positions}));
  const Value y = reshape(product, {batch, weight.dim(0), offset.dim(2), offset.dim(3)});
  return bias ? y + reshape(bias, {1, weight.dim(0), 1, 1}) : y;
}

}  // namespace genesis
