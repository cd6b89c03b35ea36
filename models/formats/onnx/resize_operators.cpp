// Interpolation along axes: each result is a sum of a few neighbors with weights that are computed when the model is imported.
#include <algorithm>
#include <cmath>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

struct Rules {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

// One axis of a result: its size, how much larger it is than that of x, and the part of x that it covers.
struct AxisPlan {
  int64_t size, input;
  double scale, begin = 0, end = 1;
};

double source_of(const Rules& rules, const AxisPlan& axis, double x) {
  const double in = static_cast<double>(axis.input), out = axis.scale * in;
  const std::string& kind = rules.coordinates;
  if (kind == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (kind == "asymmetric") return x / axis.scale;
  if (kind == "tf_crop_and_resize") {
    const double range = (axis.end - axis.begin) * (in - 1);
    return axis.begin * (in - 1) + (out == 1 ? range / 2 : x * range / (out - 1));
  }
  if (kind == "pytorch_half_pixel") return out == 1 ? -0.5 : (x + 0.5) / axis.scale - 0.5;
  if (kind == "half_pixel") return (x + 0.5) / axis.scale - 0.5;
  if (kind == "half_pixel_symmetric")
    return in / 2 * (1 - static_cast<double>(axis.size) / out) + (x + 0.5) / axis.scale - 0.5;
  fail("its coordinate_transformation_mode is '{}'", kind);
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
std::vector<double> weights_of(const Rules& rules, double ratio, double scale) {
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

Neighbors neighbors_of(const Rules& rules, const AxisPlan& axis) {
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
    result.is_outside.push_back(rules.coordinates == "tf_crop_and_resize" &&
                                (at < 0 || at > static_cast<double>(axis.input - 1)));
  }
  return result;
}

Value along(Call& call, const std::vector<double>& numbers, Value like, int axis) {
  const std::vector<float> rounded(numbers.begin(), numbers.end());
  Shape shape(std::vector<Dim>(static_cast<size_t>(like.rank()), Dim(1)));
  shape[axis] = static_cast<int64_t>(numbers.size());
  const Tensor tensor = like.dtype() == DType::f64 ? Tensor::of(numbers) : Tensor::of(rounded);
  return reshape(call.g().constant("weights", tensor), shape);
}
Value places_value(Call& call, const std::vector<int64_t>& places) {
  return call.g().constant("places", Tensor::of(places));
}

Value resized_axis(Call& call, Value x, int axis, const Rules& rules, const AxisPlan& plan) {
  const Neighbors n = neighbors_of(rules, plan);
  const bool is_outside = std::ranges::find(n.is_outside, true) != n.is_outside.end();
  Value y;
  if (rules.mode == "nearest") {
    std::vector<int64_t> places;
    for (size_t i = 0; i < n.places.at(0).size(); ++i)
      places.push_back(n.places[n.weights[0][i] > 0 ? 0 : 1][i]);
    y = index_select(x, axis, places_value(call, places));
  } else {
    for (size_t k = 0; k < n.places.size(); ++k) {
      const Value part =
          index_select(x, axis, places_value(call, n.places[k])) * along(call, n.weights[k], x, axis);
      y = y ? y + part : part;
    }
  }
  if (!is_outside) return y;
  std::vector<double> inside;
  for (const bool outside : n.is_outside) inside.push_back(outside ? 0 : 1);
  return where(along(call, inside, x, axis) == 1.0, y, Scalar(rules.extrapolation));
}

// --- sizes of results

struct Plan {
  std::vector<int64_t> axes;
  std::vector<std::optional<AxisPlan>> plans;  // nothing for an axis that stays
};

std::vector<int64_t> axes_to_resize(Call& call, Value x) {
  std::vector<int64_t> axes = call.list("axes");
  if (axes.empty())
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank());
  return axes;
}

Plan plan_by_scales(Call& call, Value x, const std::vector<double>& scales) {
  Plan plan{axes_to_resize(call, x), {}};
  if (scales.size() != plan.axes.size())
    fail("it has {} scales for {} axes", scales.size(), plan.axes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    plan.plans.emplace_back();
    if (scales[i] == 1) continue;
    const int64_t input = x.dim(plan.axes[i]).value();
    plan.plans.back() =
        AxisPlan{static_cast<int64_t>(std::floor(scales[i] * static_cast<double>(input))), input, scales[i]};
  }
  return plan;
}

Plan plan_by_sizes(Call& call, Value x, const std::vector<Dim>& sizes, const std::string& policy) {
  Plan plan{axes_to_resize(call, x), {}};
  if (sizes.size() != plan.axes.size()) fail("it has {} sizes for {} axes", sizes.size(), plan.axes.size());
  std::vector<double> scales;
  for (size_t i = 0; i < sizes.size(); ++i) {
    plan.plans.emplace_back();
    const Dim& input = x.dim(plan.axes[i]);
    if (sizes[i] == input && policy == "stretch") continue;
    const int64_t size = sizes[i].value();
    plan.plans.back() =
        AxisPlan{size, input.value(), static_cast<double>(size) / static_cast<double>(input.value())};
    scales.push_back(plan.plans.back()->scale);
  }
  if (policy == "stretch") return plan;
  if (policy != "not_larger" && policy != "not_smaller") fail("its keep_aspect_ratio_policy is '{}'", policy);
  const double scale =
      policy == "not_larger" ? *std::ranges::min_element(scales) : *std::ranges::max_element(scales);
  for (auto& axis : plan.plans)
    axis = AxisPlan{static_cast<int64_t>(scale * static_cast<double>(axis->input) + 0.5), axis->input, scale};
  return plan;
}

void take_region(Plan& plan, Value x, const std::vector<double>& region) {
  const size_t count = plan.axes.size();
  if (region.size() != 2 * count) fail("its region has {} numbers for {} axes", region.size(), count);
  for (size_t i = 0; i < count; ++i) {
    if (region[i] == 0 && region[count + i] == 1) continue;
    const int64_t input = x.dim(plan.axes[i]).value();
    if (!plan.plans[i]) plan.plans[i] = AxisPlan{input, input, 1};
    plan.plans[i]->begin = region[i], plan.plans[i]->end = region[count + i];
  }
}

Value resized_by(Call& call, Value x, const Rules& rules, const Plan& plan) {
  const DType dtype = x.dtype();
  const bool is_plain = rules.mode == "nearest" || dtype == DType::f64 || dtype == DType::f32;
  if (!is_plain && !is_float(dtype)) fail("integers are resized by the mode 'nearest' only");
  Value y = is_plain ? x : cast(x, DType::f32);
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (!plan.plans[i]) continue;
    constexpr int64_t kMaxPlaces = 1 << 20;
    if (plan.plans[i]->input < 1 || plan.plans[i]->size < 0 || plan.plans[i]->size > kMaxPlaces)
      fail("an axis of {} is resized to {}", plan.plans[i]->input, plan.plans[i]->size);
    y = resized_axis(call, y, static_cast<int>(plan.axes[i]), rules, *plan.plans[i]);
  }
  return cast(y, dtype);
}

Value resized(Call& call) {
  const Value x = call.tensor(0);
  const bool is_old = call.version() < 11;
  Rules rules{
      .mode = call.text("mode", "nearest"),
      .coordinates = call.text("coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel"),
      .nearest = call.text("nearest_mode", is_old ? "floor" : "round_prefer_floor"),
      .cubic = call.real("cubic_coeff_a", -0.75),
      .extrapolation = call.real("extrapolation_value", 0),
      .exclude_outside = call.attribute("exclude_outside", 0) != 0,
      .antialias = call.attribute("antialias", 0) != 0};
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  const size_t scales = is_old ? 1 : 2;
  const auto is_given = [&](size_t place) {
    return call.has(place) && !(call.item(place)->tensor && call.item(place)->tensor->numel() == 0);
  };
  Plan plan = is_given(3) ? plan_by_sizes(call, x, call.sizes(3), policy)
                          : plan_by_scales(call, x, call.known(scales).to_doubles());
  if (!is_old && rules.coordinates == "tf_crop_and_resize") take_region(plan, x, call.known(1).to_doubles());
  return resized_by(call, x, rules, plan);
}
Value upsampled(Call& call) {
  const Value x = call.tensor(0);
  Rules rules{.mode = call.text("mode", "nearest"), .coordinates = "asymmetric", .nearest = "floor"};
  if (rules.mode == "bilinear") rules.mode = "linear";
  const std::vector<double> scales = call.version() < 9 ? call.reals("scales") : call.known(1).to_doubles();
  return resized_by(call, x, rules, plan_by_scales(call, x, scales));
}

}  // namespace

const Operators& resize_operators() {
  static const Operators kOperators = {
      {"Resize", one<resized>, 10, Takes::kNumbers},
      {"Upsample", one<upsampled>, 7, Takes::kNumbers},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
