// Operators that read an image at places that are data: grids of places and regions.
#include <functional>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

// Reflects places at both borders until they are between them.
Value reflected(Value x, double least, double most) {
  const double range = most - least;
  if (range <= 0) return zeros_like(x);
  const Value is_below = x < least;
  const Value distance = where(is_below, least - x, relu(x - most));
  const Value turns = floor(distance / range), rest = distance - turns * range;
  const Value is_even = remainder(turns, scalar_like(turns, 2)) == 0.0;
  const Value from_least = where(is_even, least + rest, most - rest),
              from_most = where(is_even, most - rest, least + rest);
  return where(is_below, from_least, where(x > most, from_most, x));
}

struct Grid {
  std::string padding;
  std::vector<int64_t> sizes;  // one for each spatial axis
  bool align = false;
  double least(size_t) const { return align ? 0 : -0.5; }
  double most(size_t axis) const { return static_cast<double>(sizes[axis]) - (align ? 1 : 0.5); }
};

// The elements of images [batch, channels, area] at whole places, one list for each spatial axis: [batch, channels, count].
Value pixels(Value images, const Grid& grid, const std::vector<Value>& places) {
  Value joined, is_inside;
  for (size_t axis = 0; axis < places.size(); ++axis) {
    const auto last = static_cast<double>(grid.sizes[axis] - 1);
    Value at = places[axis];
    if (grid.padding == "zeros") {
      const Value here = logical_and(at >= 0.0, at <= last);
      is_inside = is_inside ? logical_and(is_inside, here) : here;
    } else if (grid.padding == "reflection") {
      at = reflected(at, grid.least(axis), grid.most(axis));
    }
    const Value whole = cast(clamp(at, 0, last), DType::i64);
    joined = joined ? joined * grid.sizes[axis] + whole : whole;
  }
  const Shape shape = {images.dim(0), images.dim(1), joined.dim(1)};
  const Value taken = gather(images, 2, expand(unsqueeze(joined, 1), shape));
  return is_inside ? where(unsqueeze(is_inside, 1), taken, Scalar(0.0)) : taken;
}

// Weights of the neighbors first, first + 1, ... of a place that lies `ratio` behind neighbor 0.
std::vector<Value> neighbor_weights(Value ratio, bool is_cubic) {
  if (!is_cubic) return {1.0 - ratio, ratio};
  constexpr double kA = -0.75;
  const auto far = [&](Value x) { return ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const auto near = [&](Value x) { return (x * (kA + 2) - (kA + 3)) * x * x + 1.0; };
  return {far(ratio + 1.0), near(ratio), near(1.0 - ratio), far(2.0 - ratio)};
}

Value interpolated(Value images, const Grid& grid, const std::vector<Value>& at, bool is_cubic) {
  std::vector<Value> below;
  std::vector<std::vector<Value>> weights;
  for (const Value& place : at) {
    below.push_back(floor(place));
    weights.push_back(neighbor_weights(place - below.back(), is_cubic));
  }
  const int64_t count = is_cubic ? 4 : 2, first = is_cubic ? -1 : 0;
  int64_t corners = 1;
  for (size_t axis = 0; axis < at.size(); ++axis) corners *= count;
  Value total;
  for (int64_t corner = 0; corner < corners; ++corner) {
    std::vector<Value> places;
    Value weight;
    int64_t rest = corner;
    for (size_t axis = 0; axis < at.size(); ++axis, rest /= count) {
      const int64_t k = rest % count;
      places.push_back(below[axis] + static_cast<double>(first + k));
      const Value own = weights[axis][static_cast<size_t>(k)];
      weight = weight ? weight * own : own;
    }
    const Value part = pixels(images, grid, places) * unsqueeze(cast(weight, images.dtype()), 1);
    total = total ? total + part : part;
  }
  return total;
}

Value sampled(Call& call) {
  const Value x = call.tensor(0), grid_value = call.tensor(1);
  std::string mode = call.text("mode", call.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "nearest" && mode != "linear" && mode != "cubic") fail("its mode is '{}'", mode);
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  Grid grid{call.text("padding_mode", "zeros"), {}, call.attribute("align_corners", 0) != 0};
  if (grid.padding != "zeros" && grid.padding != "border" && grid.padding != "reflection")
    fail("its padding_mode is '{}'", grid.padding);
  Dim area = 1, count = 1;
  Shape result = {x.dim(0), x.dim(1)};
  for (size_t axis = 0; axis < spatial; ++axis) {
    grid.sizes.push_back(x.dim(static_cast<int64_t>(axis) + 2).value());
    area = area * grid.sizes.back(), count = count * grid_value.dim(static_cast<int64_t>(axis) + 1);
    result.push_back(grid_value.dim(static_cast<int64_t>(axis) + 1));
  }
  const Value flat = reshape(grid_value, {x.dim(0), count, static_cast<int64_t>(spatial)});
  std::vector<Value> at;
  for (size_t axis = 0; axis < spatial; ++axis) {
    const auto size = static_cast<double>(grid.sizes[axis]);
    const Value n = select(flat, 2, static_cast<int64_t>(spatial - 1 - axis));  // coordinates are x, y, z
    Value place = grid.align ? (n + 1.0) / 2.0 * (size - 1) : ((n + 1.0) * size - 1.0) / 2.0;
    if (mode == "nearest") place = round(place);
    if (grid.padding == "border") place = clamp(place, 0, size - 1);
    if (grid.padding == "reflection") place = reflected(place, grid.least(axis), grid.most(axis));
    at.push_back(place);
  }
  const Value images = reshape(x, {x.dim(0), x.dim(1), area});
  return reshape(
      mode == "nearest" ? pixels(images, grid, at) : interpolated(images, grid, at, mode == "cubic"), result);
}

// The places of an affine map: theta [batch, n, n + 1] times the places of all elements, each of n numbers and a 1.
Value affine_grid(Call& call) {
  const Value theta = call.tensor(0);
  const std::vector<int64_t> sizes = call.integers(1);
  const bool align = call.attribute("align_corners", 0) != 0;
  const size_t spatial = sizes.size() - 2;
  Shape whole, result = {theta.dim(0)};
  for (size_t axis = 0; axis < spatial; ++axis)
    whole.push_back(sizes[axis + 2]), result.push_back(sizes[axis + 2]);
  std::vector<Value> rows;
  for (size_t axis = spatial; axis-- > 0;) {
    const auto size = static_cast<double>(sizes[axis + 2]);
    const double step = align ? 2 / (size - 1) : 2 / size, start = align ? -1 : -1 + step / 2;
    Shape shape(std::vector<Dim>(spatial, Dim(1)));
    shape[static_cast<int>(axis)] = sizes[axis + 2];
    const Value places = arange(call.graph(), sizes[axis + 2], start, step, theta.dtype());
    rows.push_back(reshape(expand(reshape(places, shape), whole), {whole.numel()}));
  }
  rows.push_back(call.g().ones({whole.numel()}, theta.dtype()));
  const Value grid = transpose(matmul(theta, stack(rows, 0)));
  result.push_back(static_cast<int64_t>(spatial));
  return reshape(grid, result);
}

// --- regions

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

Value regions_aligned(Call& call) {
  const Value x = call.tensor(0), regions = call.tensor(1), images = call.tensor(2);
  const int64_t height = call.attribute("output_height", 1), width = call.attribute("output_width", 1),
                each = call.attribute("sampling_ratio", 0);
  const double scale = call.real("spatial_scale", 1);
  const std::string mode = call.text("mode", "avg");
  const bool is_half = call.text("coordinate_transformation_mode",
                                 call.version() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  if (each < 1)
    fail("a sampling_ratio of 0 takes as many samples as a region has pixels, which depends on data");
  if (mode != "avg" && mode != "max") fail("its mode is '{}'", mode);
  const auto corner = [&](int64_t i) { return select(regions, 1, i) * scale - (is_half ? 0.5 : 0.0); };
  const auto extent = [&](Value begin, Value end) {
    return is_half ? end - begin : maximum(end - begin, Scalar(1.0));
  };
  const Value left = corner(0), top = corner(1);
  const Samples ys = samples_along(top, extent(top, corner(3)), height, each, x.dim(2).value());
  const Samples xs = samples_along(left, extent(left, corner(2)), width, each, x.dim(3).value());
  const Value taken = index_select(x, 0, cast(images, DType::i64));
  const Dim count = regions.dim(0);
  const Value flat = reshape(taken, {count, x.dim(1), x.dim(2) * x.dim(3)});
  const int64_t samples = height * each * width * each;
  const Value is_inside = logical_and(unsqueeze(ys.is_inside, 2), unsqueeze(xs.is_inside, 1));
  std::vector<Value> parts;
  for (const bool is_low : {true, false})
    for (const bool is_left : {true, false}) {
      const Value rows = unsqueeze(is_low ? ys.low : ys.high, 2),
                  columns = unsqueeze(is_left ? xs.low : xs.high, 1);
      const Value places =
          reshape(cast(rows, DType::i64) * x.dim(3).value() + cast(columns, DType::i64), {count, 1, samples});
      const Value weight = unsqueeze(is_low ? 1.0 - ys.ratio : ys.ratio, 2) *
                           unsqueeze(is_left ? 1.0 - xs.ratio : xs.ratio, 1);
      const Value shown = reshape(where(is_inside, weight, Scalar(0.0)), {count, 1, samples});
      parts.push_back(gather(flat, 2, expand(places, {count, x.dim(1), samples})) * shown);
    }
  const bool is_mean = mode == "avg";
  Value total = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) total = is_mean ? total + parts[i] : maximum(total, parts[i]);
  const Value bins = reshape(total, {count, x.dim(1), height, each, width, each});
  return is_mean ? mean(bins, {3, 5}) : max(bins, {3, 5});
}

}  // namespace

const Operators& sampling_operators() {
  static const Operators kOperators = {
      {"AffineGrid", one<affine_grid>},
      {"GridSample", one<sampled>},
      {"RoiAlign", one<regions_aligned>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
