// Operators that interpolate (builder/interpolation.h, builder/vision/regions.h): along axes, at grids of places, and in regions.
#include <algorithm>
#include <array>
#include <cmath>

#include "builder/functions.h"
#include "builder/interpolation.h"
#include "builder/vision/regions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::models::onnx {
namespace {

Value sampled(Call& call) {
  std::string mode = call.text("mode", call.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return grid_sample(call.tensor(0), call.tensor(1),
                     {.mode = mode,
                      .padding = call.text("padding_mode", "zeros"),
                      .align_corners = call.attribute("align_corners", 0) != 0});
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

Value regions_aligned(Call& call) {
  const std::string mode = call.text("mode", "avg");
  const std::string corners = call.version() < 16 ? "output_half_pixel" : "half_pixel";
  const RoiAlignOptions options{
      .height = call.attribute("output_height", 1),
      .width = call.attribute("output_width", 1),
      .scale = call.real("spatial_scale", 1),
      .samples = call.attribute("sampling_ratio", 0),
      .aligned = call.text("coordinate_transformation_mode", corners) == "half_pixel",
      .takes_max = mode == "max"};
  if (mode != "avg" && mode != "max") fail("its mode is '{}'", mode);
  return roi_align(call.tensor(0), call.tensor(1), call.tensor(2), options);
}

std::array<int64_t, 2> pair_of(Call& call, const char* name, int64_t otherwise) {
  const std::vector<int64_t> pair = call.list(name, {otherwise, otherwise});
  if (pair.size() != 2) fail("its attribute '{}' has {} numbers: read are images, with 2", name, pair.size());
  return {pair[0], pair[1]};
}
Value convolved_at_offsets(Call& call) {
  call.accept_any("kernel_shape");  // the weight has it
  const std::vector<int64_t> pads = call.list("pads", {0, 0, 0, 0});
  if (pads.size() != 4) fail("its attribute 'pads' has {} numbers: read are images, with 4", pads.size());
  const DeformConvOptions options{.stride = pair_of(call, "strides", 1),
                                  .padding = {pads[0], pads[1]},
                                  .dilation = pair_of(call, "dilations", 1),
                                  .groups = call.attribute("group", 1),
                                  .offset_groups = call.attribute("offset_group", 1),
                                  .end_padding = std::array{pads[2], pads[3]}};
  return deform_conv2d(call.tensor(0), call.tensor(2), call.tensor(1), call.tensor_or(3, {}),
                       call.tensor_or(4, {}), options);
}

// --- sizes of results

struct Plan {
  std::vector<int64_t> axes;
  std::vector<std::optional<ResizedAxis>> plans;  // nothing for an axis that stays
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
    const Dim& input = x.dim(plan.axes[i]);
    plan.plans.back() = ResizedAxis{scaled_size(input, scales[i]), input, scales[i]};
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
    plan.plans.back() = ResizedAxis{sizes[i], input};
    if (policy != "stretch")
      scales.push_back(static_cast<double>(sizes[i].value()) / static_cast<double>(input.value()));
  }
  if (policy == "stretch") return plan;
  if (policy != "not_larger" && policy != "not_smaller") fail("its keep_aspect_ratio_policy is '{}'", policy);
  const double scale =
      policy == "not_larger" ? *std::ranges::min_element(scales) : *std::ranges::max_element(scales);
  for (auto& axis : plan.plans) {
    const Dim input = axis->input;
    axis = ResizedAxis{static_cast<int64_t>(scale * static_cast<double>(input.value()) + 0.5), input, scale};
  }
  return plan;
}

void take_region(Plan& plan, Value x, const std::vector<double>& region) {
  const size_t count = plan.axes.size();
  if (region.size() != 2 * count) fail("its region has {} numbers for {} axes", region.size(), count);
  for (size_t i = 0; i < count; ++i) {
    if (region[i] == 0 && region[count + i] == 1) continue;
    const int64_t input = x.dim(plan.axes[i]).value();
    if (!plan.plans[i]) plan.plans[i] = ResizedAxis{input, input, 1};
    plan.plans[i]->begin = region[i], plan.plans[i]->end = region[count + i];
  }
}

Value resized_by(Value x, const ResizeRules& rules, const Plan& plan) {
  const DType dtype = x.dtype();
  const bool is_plain = rules.mode == "nearest" || dtype == DType::f64 || dtype == DType::f32;
  if (!is_plain && !is_float(dtype)) fail("integers are resized by the mode 'nearest' only");
  Value y = is_plain ? x : cast(x, DType::f32);
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (!plan.plans[i]) continue;
    constexpr int64_t kMaxPlaces = 1 << 20;
    const auto& [size, input, scale, begin, end] = *plan.plans[i];
    if ((input.is_constant() && input.value() < 1) ||
        (size.is_constant() && (size.value() < 0 || size.value() > kMaxPlaces)))
      fail("an axis of {} is resized to {}", input.to_string(), size.to_string());
    y = resize_axis(y, static_cast<int>(plan.axes[i]), rules, *plan.plans[i]);
  }
  return cast(y, dtype);
}

Value resized(Call& call) {
  const Value x = call.tensor(0);
  const bool is_old = call.version() < 11;
  ResizeRules rules{
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
  return resized_by(x, rules, plan);
}
Value upsampled(Call& call) {
  const Value x = call.tensor(0);
  ResizeRules rules{.mode = call.text("mode", "nearest"), .coordinates = "asymmetric", .nearest = "floor"};
  if (rules.mode == "bilinear") rules.mode = "linear";
  const std::vector<double> scales = call.version() < 9 ? call.reals("scales") : call.known(1).to_doubles();
  return resized_by(x, rules, plan_by_scales(call, x, scales));
}

}  // namespace

const Operators& sampling_operators() {
  static const Operators kOperators = {
      {"AffineGrid", one<affine_grid>},   {"DeformConv", one<convolved_at_offsets>},
      {"GridSample", one<sampled>},       {"Resize", one<resized>, 10, Takes::kNumbers},
      {"RoiAlign", one<regions_aligned>}, {"Upsample", one<upsampled>, 7, Takes::kNumbers},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
