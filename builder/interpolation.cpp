#include "builder/interpolation.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "builder/functions.h"
#include "schema/core/error.h"
#include "schema/core/open_size.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// A ResizedAxis whose sizes are numbers.
struct KnownAxis {
  int64_t size, input;
  double scale, begin, end;
};

// The size of x along an axis, that of the result, and that of x times the factor.
template <class Number>
struct AxisSizes {
  Number in, size, out;
};

// Returns the place in x of element i of a result. Numbers are doubles, or Values where sizes are symbols. `if_one(a, b)` returns a if
// `out` is 1, else b.
template <class Number, class Scale, class Choose>
Number place_in_x(const std::string& kind, Number i, Scale scale, const AxisSizes<Number>& n,
                  const Choose& if_one) {
  if (kind == "align_corners") return i * (n.in - 1.0) / if_one(1, n.out - 1.0);
  if (kind == "asymmetric") return i / scale;
  if (kind == "half_pixel") return (i + 0.5) / scale - 0.5;
  if (kind == "pytorch_half_pixel") return if_one(-0.5, (i + 0.5) / scale - 0.5);
  if (kind == "half_pixel_symmetric") return n.in / 2.0 * (1.0 - n.size / n.out) + (i + 0.5) / scale - 0.5;
  fail("its coordinate_transformation_mode is '{}'", kind);
}

constexpr const char kRegion[] = "tf_crop_and_resize";

double source_of(const ResizeRules& rules, const KnownAxis& axis, double x) {
  const double in = static_cast<double>(axis.input), out = axis.scale * in;
  const auto if_one = [&](double one, double other) { return out == 1 ? one : other; };
  if (rules.coordinates != kRegion)
    return place_in_x(rules.coordinates, x, axis.scale,
                      AxisSizes<double>{in, static_cast<double>(axis.size), out}, if_one);
  const double range = (axis.end - axis.begin) * (in - 1);
  return axis.begin * (in - 1) + (out == 1 ? range / 2 : x * range / (out - 1));
}

std::vector<double> nearest_weights(const std::string& mode, double ratio) {
  if (ratio == 1) return {0, 1};
  if (mode == "round_prefer_floor")
    return ratio <= 0.5 ? std::vector<double>{1, 0} : std::vector<double>{0, 1};
  if (mode == "round_prefer_ceil") return ratio < 0.5 ? std::vector<double>{1, 0} : std::vector<double>{0, 1};
  if (mode == "floor") return {1, 0};
  if (mode == "ceil") return {0, 1};
  fail("its nearest_mode is '{}'", mode);
}
double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

// The weights of the neighbors of a place; `ratio`, in (0, 1], is how far it lies behind the neighbor before it.
std::vector<double> weights_of(const ResizeRules& rules, double ratio, double scale) {
  if (rules.mode == "nearest") return nearest_weights(rules.nearest, ratio);
  if (rules.mode != "linear" && rules.mode != "cubic") fail("its mode is '{}'", rules.mode);
  const bool is_cubic = rules.mode == "cubic";
  const double narrowing = rules.antialias ? std::min(scale, 1.0) : 1.0, reach = is_cubic ? 2 : 1;
  const auto first = static_cast<int64_t>(std::floor(-reach / narrowing)) + 1;
  const int64_t count = 2 - 2 * first;
  std::vector<double> weights;
  double total = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double distance = (static_cast<double>(first + i) - ratio) * narrowing;
    weights.push_back(is_cubic ? cubic_kernel(distance, rules.cubic)
                               : std::clamp(1 - std::abs(distance), 0.0, 1.0));
    total += weights.back();
  }
  if (rules.antialias)
    for (double& weight : weights) weight /= total;
  return weights;
}

// For each place of a result its neighbors in x and their weights.
struct Neighbors {
  std::vector<std::vector<int64_t>> places;  // [neighbor][place]
  std::vector<std::vector<double>> weights;
  std::vector<bool> is_outside;
};

Neighbors neighbors_of(const ResizeRules& rules, const KnownAxis& axis) {
  Neighbors result;
  for (int64_t i = 0; i < axis.size; ++i) {
    const double at = source_of(rules, axis, static_cast<double>(i)), below = std::floor(at);
    std::vector<double> weights = weights_of(rules, at == below ? 1 : at - below, axis.scale);
    const auto count = static_cast<int64_t>(weights.size());
    const auto first = static_cast<int64_t>(below) + (at == below ? -count / 2 : -count / 2 + 1);
    if (rules.exclude_outside) {
      double total = 0;
      for (int64_t k = 0; k < count; ++k) {
        if (first + k < 0 || first + k >= axis.input) weights[static_cast<size_t>(k)] = 0;
        total += weights[static_cast<size_t>(k)];
      }
      for (double& weight : weights) weight /= total == 0 ? 1 : total;
    }
    result.places.resize(weights.size()), result.weights.resize(weights.size());
    for (size_t k = 0; k < weights.size(); ++k) {
      result.places[k].push_back(std::clamp<int64_t>(first + static_cast<int64_t>(k), 0, axis.input - 1));
      result.weights[k].push_back(weights[k]);
    }
    result.is_outside.push_back(rules.coordinates == kRegion &&
                                (at < 0 || at > static_cast<double>(axis.input - 1)));
  }
  return result;
}

Value constant(Value like, const char* name, const Tensor& tensor) {
  return like.graph->constant(like.graph->model().add_tensor(name, tensor));
}
Value along(const std::vector<double>& numbers, Value like, int axis) {
  const std::vector<float> rounded(numbers.begin(), numbers.end());
  Shape shape(std::vector<Dim>(static_cast<size_t>(like.rank()), Dim(1)));
  shape[axis] = static_cast<int64_t>(numbers.size());
  const Tensor tensor = like.dtype() == DType::f64 ? Tensor::of(numbers) : Tensor::of(rounded);
  return reshape(constant(like, "weights", tensor), shape);
}
// --- grids

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
std::vector<Value> neighbor_weights(Value ratio, bool is_cubic, double a = -0.75) {
  if (!is_cubic) return {1.0 - ratio, ratio};
  const auto far = [&](Value x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near = [&](Value x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
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

void check_options(const GridSampleOptions& options) {
  if (options.mode != "nearest" && options.mode != "linear" && options.mode != "cubic")
    fail("the mode of grid_sample is '{}': expected linear, nearest or cubic", options.mode);
  if (options.padding != "zeros" && options.padding != "border" && options.padding != "reflection")
    fail("the padding of grid_sample is '{}': expected zeros, border or reflection", options.padding);
}

// torch's modes in the words of ONNX.
ResizeRules rules_of(const InterpolateOptions& options) {
  ResizeRules rules;
  rules.antialias = options.antialias;
  rules.coordinates = options.align_corners ? "align_corners" : "half_pixel";
  if (options.mode == "nearest") {
    rules.coordinates = "asymmetric", rules.nearest = "floor";
  } else if (options.mode == "nearest-exact") {
    rules.nearest = "round_prefer_ceil";
  } else if (options.mode == "bicubic") {
    rules.mode = "cubic", rules.cubic = options.antialias ? -0.5 : -0.75;
  } else if (options.mode == "linear" || options.mode == "bilinear" || options.mode == "trilinear") {
    rules.mode = "linear";
  } else {
    fail(
        "the mode of interpolate is '{}': expected nearest, nearest-exact, linear, bilinear, trilinear or "
        "bicubic",
        options.mode);
  }
  if (options.antialias) rules.exclude_outside = true;
  return rules;
}

// Throws Error for factors whose places or numbers of neighbors cannot be computed.
void check_plan(const ResizeRules& rules, const KnownAxis& plan) {
  constexpr int64_t kMaxPlaces = int64_t{1} << 26;
  const double least =
      rules.antialias ? 1e-5 : 1e-12;  // with antialias, a place has about 4 / scale neighbors
  const bool is_finite = std::isfinite(plan.begin) && std::isfinite(plan.end) &&
                         std::abs(plan.begin) < 1e12 && std::abs(plan.end) < 1e12;
  const double neighbors = rules.antialias ? std::max(1.0, 4 / plan.scale) : 1;
  if (plan.input < 1 || plan.size < 0 || !(plan.scale >= least && plan.scale <= 1e12) || !is_finite ||
      static_cast<double>(plan.size) * neighbors > static_cast<double>(kMaxPlaces))
    fail(
        "an axis of {} elements is resized to {} by a factor of {}: expected a factor of {} to 1e12 and at "
        "most {} places",
        plan.input, plan.size, plan.scale, least, kMaxPlaces);
}

// --- sizes that are symbols until the model is bound

// Returns the place in x of each element along the axis, f64 [size]; the same numbers as source_of().
Value symbolic_places(const ResizeRules& rules, const ResizedAxis& axis, Graph& graph) {
  const std::string& kind = rules.coordinates;
  if (kind == kRegion)
    throw OpenSize(fmt::format("its coordinate_transformation_mode is '{}', which needs known sizes", kind));
  const Value i = arange(graph, axis.size, 0, 1, DType::f64), in = dim_value(graph, axis.input, DType::f64),
              size = dim_value(graph, axis.size, DType::f64);
  const bool has_scale = axis.scale > 0;
  const AxisSizes<Value> sizes{in, size, has_scale ? in * axis.scale : size};
  const auto if_one = [&](double one, Value other) {
    return where(sizes.out == 1.0, full_like(other, one), other);
  };
  return has_scale ? place_in_x(kind, i, axis.scale, sizes, if_one)
                   : place_in_x(kind, i, size / in, sizes, if_one);
}

Value nearest_place(const std::string& mode, Value at) {
  if (mode == "round_prefer_floor") return ceil(at - 0.5);
  if (mode == "round_prefer_ceil") return floor(at + 0.5);
  if (mode == "floor") return floor(at);
  if (mode == "ceil") return ceil(at);
  fail("its nearest_mode is '{}'", mode);
}

Value resized_by_symbols(Value x, int axis, const ResizeRules& rules, const ResizedAxis& plan) {
  if (rules.antialias || rules.exclude_outside)
    throw OpenSize(fmt::format("an axis of {} elements is resized to {} with {}: expected known sizes",
                               plan.input.to_string(), plan.size.to_string(),
                               rules.antialias ? "antialias" : "exclude_outside"));
  Graph& graph = *x.graph;
  const Value last = dim_value(graph, plan.input, DType::f64) - 1.0;
  const auto taken = [&](Value place) {
    const Value inside = minimum(maximum(place, zeros_like(place)), last);
    return index_select(x, axis, cast(inside, DType::i64));
  };
  const Value at = symbolic_places(rules, plan, graph);
  if (rules.mode == "nearest") return taken(nearest_place(rules.nearest, at));
  const bool is_cubic = rules.mode == "cubic";
  if (rules.mode != "linear" && !is_cubic) fail("its mode is '{}'", rules.mode);
  const Value below = floor(at);
  const std::vector<Value> weights = neighbor_weights(at - below, is_cubic, rules.cubic);
  Shape along_axis(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
  along_axis[axis] = plan.size;
  Value y;
  for (size_t k = 0; k < weights.size(); ++k) {
    const Value part = taken(below + (static_cast<double>(k) - (is_cubic ? 1 : 0))) *
                       reshape(cast(weights[k], x.dtype()), along_axis);
    y = y ? y + part : part;
  }
  return y;
}

}  // namespace

Dim scaled_size(const Dim& size, double scale) {
  constexpr int64_t kParts = 64;
  if (size.is_constant()) {
    const double scaled = std::floor(scale * static_cast<double>(size.value()));
    if (!(scaled >= 0 && scaled < 1e15)) fail("an axis of {} is resized by {}", size.value(), scale);
    return static_cast<int64_t>(scaled);
  }
  const double parts = scale * kParts;
  if (!(parts >= 1 && parts < 1e9) || parts != std::floor(parts))
    throw OpenSize(
        fmt::format("an axis of {} elements is resized by {}: expected a known size, or a multiple of 1/{}",
                    size.to_string(), scale, kParts));
  return Dim::floor_div(size * Dim(static_cast<int64_t>(parts)), kParts);
}

Value resize_axis(Value x, int axis, const ResizeRules& rules, const ResizedAxis& resized) {
  if (!resized.size.is_constant() || !resized.input.is_constant())
    return resized_by_symbols(x, axis, rules, resized);
  KnownAxis plan{resized.size.value(), resized.input.value(), resized.scale, resized.begin, resized.end};
  if (plan.scale == 0 && plan.input > 0)
    plan.scale = static_cast<double>(plan.size) / static_cast<double>(plan.input);
  check_plan(rules, plan);
  if (plan.size == 0) return narrow(x, axis, 0, 0);
  const Neighbors n = neighbors_of(rules, plan);
  const bool is_outside = std::ranges::find(n.is_outside, true) != n.is_outside.end();
  Value y;
  if (rules.mode == "nearest") {
    std::vector<int64_t> places;
    for (size_t i = 0; i < n.places.at(0).size(); ++i)
      places.push_back(n.places[n.weights[0][i] > 0 ? 0 : 1][i]);
    y = index_select(x, axis, constant(x, "places", Tensor::of(places)));
  } else {
    for (size_t k = 0; k < n.places.size(); ++k) {
      const Value part = index_select(x, axis, constant(x, "places", Tensor::of(n.places[k]))) *
                         along(n.weights[k], x, axis);
      y = y ? y + part : part;
    }
  }
  if (!is_outside) return y;
  std::vector<double> inside;
  for (const bool outside : n.is_outside) inside.push_back(outside ? 0 : 1);
  return where(along(inside, x, axis) == 1.0, y, Scalar(rules.extrapolation));
}

Value interpolate(Value x, const std::vector<Dim>& sizes, const InterpolateOptions& options) {
  if (static_cast<int>(sizes.size()) != x.rank() - 2)
    fail("interpolate has {} sizes for {}", sizes.size(), x.type().to_string());
  const ResizeRules rules = rules_of(options);
  const DType dtype = x.dtype();
  const bool is_plain = rules.mode == "nearest" || dtype == DType::f64;
  Value y = is_plain ? x : cast(x, DType::f32);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const double scale = i < options.scale_factors.size() ? options.scale_factors[i] : 0;
    if (sizes[i] == x.dim(axis) && (scale == 0 || scale == 1)) continue;
    y = resize_axis(y, axis, rules, {sizes[i], x.dim(axis), scale});
  }
  return cast(y, dtype);
}

Value grid_sample(Value x, Value grid_value, const GridSampleOptions& options) {
  check_options(options);
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  Grid grid{options.padding, {}, options.align_corners};
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
    if (options.mode == "nearest") place = round(place);
    if (grid.padding == "border") place = clamp(place, 0, size - 1);
    if (grid.padding == "reflection") place = reflected(place, grid.least(axis), grid.most(axis));
    at.push_back(place);
  }
  const Value images = reshape(x, {x.dim(0), x.dim(1), area});
  return reshape(options.mode == "nearest" ? pixels(images, grid, at)
                                           : interpolated(images, grid, at, options.mode == "cubic"),
                 result);
}

}  // namespace genesis
