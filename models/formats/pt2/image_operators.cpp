// Operators of images: resizing, sampling at places that are data, padding by what is there, pooling with indices.
#include <cmath>

#include "builder/convolution.h"
#include "builder/functions.h"
#include "builder/interpolation.h"
#include "builder/vision/regions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::pt2 {
namespace {

constexpr const char kNearest[] = "nearest", kExact[] = "nearest-exact", kLinear[] = "linear",
                     kCubic[] = "bicubic";

Dim factored_size(const Dim& size, double factor) {
  const Dim scaled = scaled_size(size, factor);
  constexpr int64_t kMax = 1 << 26;
  if (scaled.is_constant() && (scaled.value() < 1 || scaled.value() > kMax))
    fail("it resizes an axis of {} elements by {}: expected a result of 1 to {} elements", size.to_string(),
         factor, kMax);
  return scaled;
}

// torch takes the sizes of the result, or factors, by which it then also finds the places in x.
template <const char* mode, bool antialias = false>
Value resized(Call& call) {
  const Value x = call.tensor(call.has("input") ? "input" : "self");
  InterpolateOptions options{
      .mode = mode, .align_corners = call.flag_or("align_corners", false), .antialias = antialias};
  if (call.has("scale_factors")) options.scale_factors = call.numbers("scale_factors");
  for (const char* name : {"scales", "scales_h", "scales_w", "scales_d"}) call.must_be(name, nullptr);
  std::vector<Dim> sizes;
  if (call.has("output_size")) {
    sizes = call.sizes("output_size");
    options.scale_factors.clear();
  } else {
    for (size_t i = 0; i < options.scale_factors.size(); ++i)
      sizes.push_back(factored_size(x.dim(static_cast<int64_t>(i) + 2), options.scale_factors[i]));
  }
  return interpolate(x, sizes, options);
}

Value sampled(Call& call) {
  const char *modes[] = {"linear", "nearest", "cubic"}, *paddings[] = {"zeros", "border", "reflection"};
  const int64_t mode = call.integer("interpolation_mode"), padding = call.integer("padding_mode");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    fail("its mode {} or padding {} is not read", mode, padding);
  return grid_sample(call.tensor("input"), call.tensor("grid"),
                     {.mode = modes[mode],
                      .padding = paddings[padding],
                      .align_corners = call.flag_or("align_corners", false)});
}

template <PadMode mode>
Value padded(Call& call) {
  const Value x = call.tensor("self");
  const std::vector<int64_t> amounts = call.integers("padding");
  const auto rank = static_cast<size_t>(x.rank());
  if (amounts.size() % 2 != 0 || amounts.size() > 2 * rank)
    fail("it pads by {} amounts a tensor of {} axes", amounts.size(), rank);
  std::vector<int64_t> before(rank), after(rank);
  for (size_t i = 0; i < amounts.size() / 2; ++i)
    before[rank - 1 - i] = amounts[2 * i], after[rank - 1 - i] = amounts[2 * i + 1];
  return pad(x, before, after, 0, mode);
}

// The second result has the places of the greatest elements; a program that reads them is refused by their shape.
template <int axes>
Results pooled_with_places(Call& call) {
  PoolOptions options{.window = call.integers("kernel_size"),
                      .stride = call.integers_or("stride", {}),
                      .padding = call.integers_or("padding", std::vector<int64_t>(axes, 0)),
                      .dilation = call.integers_or("dilation", std::vector<int64_t>(axes, 1)),
                      .ceil_mode = call.flag_or("ceil_mode", false)};
  if (options.stride.empty()) options.stride = options.window;
  return std::vector<Value>{max_pool(call.tensor("self"), options), call.g().zeros({0}, DType::i64)};
}

Value channels_from_pixels(Call& call) {
  const Value x = call.tensor("self");
  const int64_t factor = call.integer("downscale_factor");
  if (factor < 1 || factor > 65536) fail("its downscale_factor is {}: expected 1 to 65536", factor);
  const auto height = x.dim(2).divide_exact(factor), width = x.dim(3).divide_exact(factor);
  if (!height || !width) fail("{} is not made of blocks of {}", x.type().to_string(), factor);
  const Value blocks = reshape(x, {x.dim(0), x.dim(1), *height, factor, *width, factor});
  return reshape(permute(blocks, {0, 1, 3, 5, 2, 4}),
                 {x.dim(0), x.dim(1) * (factor * factor), *height, *width});
}

// The first count / groups channels of each group follow one another.
Value channels_shuffled(Call& call) {
  const Value x = call.tensor("self");
  const int64_t groups = call.integer("groups");
  const auto each = x.dim(1).divide_exact(groups);
  if (groups < 1 || !each) fail("{} channels are not made of {} groups", x.dim(1).to_string(), groups);
  Shape apart = x.shape();
  apart[1] = groups;
  std::vector<Dim> sizes(apart.begin(), apart.end());
  sizes.insert(sizes.begin() + 2, *each);
  return reshape(transpose(reshape(x, Shape(sizes)), 1, 2), x.shape());
}

// --- torchvision's operators

// The first column of a region is the batch entry that it is in.
Value regions_aligned(Call& call) {
  const Value regions = call.tensor("rois");
  return roi_align(call.tensor("input"), narrow(regions, 1, 1, 4), select(regions, 1, 0),
                   {.height = call.integer("pooled_height"),
                    .width = call.integer("pooled_width"),
                    .scale = call.number_or("spatial_scale", 1),
                    .samples = call.integer("sampling_ratio"),
                    .aligned = call.flag_or("aligned", false)});
}
Value convolved_at_offsets(Call& call) {
  const bool has_mask = call.flag_or("use_mask", true);
  const Value mask = call.tensor_or("mask", {});
  return deform_conv2d(call.tensor("input"), call.tensor("offset"), call.tensor("weight"),
                       call.tensor_or("bias", {}), has_mask ? mask : Value{},
                       {.stride = {call.integer("stride_h"), call.integer("stride_w")},
                        .padding = {call.integer("pad_h"), call.integer("pad_w")},
                        .dilation = {call.integer("dilation_h"), call.integer("dilation_w")},
                        .groups = call.integer("groups"),
                        .offset_groups = call.integer("offset_groups")});
}

// --- windows of pictures as columns (torch.nn.Unfold and Fold)

struct Columns {
  static constexpr int64_t kMaxNumber = int64_t{1} << 20, kMaxPlaces = int64_t{1} << 26,
                           kMaxAxis = int64_t{1} << 40;  // so that no product of two of them overflows
  std::vector<int64_t> kernel, dilation, padding, stride;

  explicit Columns(Call& call)
      : kernel(pair_of(call, "kernel_size", 1, kMaxNumber)),
        dilation(pair_of(call, "dilation", 1, kMaxNumber)),
        padding(pair_of(call, "padding", 0, kMaxNumber)),
        stride(pair_of(call, "stride", 1, kMaxNumber)) {}
  static std::vector<int64_t> pair_of(Call& call, const char* name, int64_t least, int64_t most) {
    std::vector<int64_t> pair = call.integers(name);
    if (pair.size() == 1) pair.push_back(pair[0]);
    if (pair.size() != 2) fail("its argument '{}' has {} numbers: expected 2", name, pair.size());
    for (const int64_t number : pair)
      if (number < least || number > most)
        fail("its argument '{}' has the number {}: expected {} to {}", name, number, least, most);
    return pair;
  }
  Dim windows(size_t axis, const Dim& size) const {
    if (size.is_constant() && size.value() > kMaxAxis)
      fail("an axis of {} elements is not cut into windows: expected at most {}", size.value(), kMaxAxis);
    const Dim room = size + (2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1);
    if (room.is_constant() && room.value() < 0) fail("its windows do not fit an axis of {}", size.value());
    return Dim::floor_div(room, stride[axis]) + 1;
  }
  // The places of all taps of all windows along an axis of the padded picture, taps first.
  Value places(Call& call, size_t axis, const Dim& size) const {
    const Dim count = windows(axis, size);
    if (kernel[axis] > kMaxPlaces || (count.is_constant() && count.value() > kMaxPlaces / kernel[axis]))
      fail("it has {} windows of {} elements along an axis: expected at most {} elements in all",
           count.to_string(), kernel[axis], kMaxPlaces);
    const Value taps = arange(call.g().graph(), kernel[axis]) * dilation[axis],
                begins = arange(call.g().graph(), count) * stride[axis];
    return flatten(unsqueeze(taps, 1) + unsqueeze(begins, 0));
  }
};

Value columns_of(Call& call) {
  const Value x = call.tensor("self");
  if (x.rank() != 4) fail("a picture without a batch is not read");
  const Columns c(call);
  const Dim height = x.dim(2), width = x.dim(3);
  const std::vector<int64_t> pads = {0, 0, c.padding[0], c.padding[1]};
  Value y = pad(x, pads, pads);
  y = index_select(index_select(y, 2, c.places(call, 0, height)), 3, c.places(call, 1, width));
  const Dim rows = c.windows(0, height), columns = c.windows(1, width);
  y = reshape(y, {x.dim(0), x.dim(1), c.kernel[0], rows, c.kernel[1], columns});
  return reshape(permute(y, {0, 1, 2, 4, 3, 5}),
                 {x.dim(0), x.dim(1) * (c.kernel[0] * c.kernel[1]), rows * columns});
}
Value picture_of_columns(Call& call) {
  const Value x = call.tensor("self");
  if (x.rank() != 3) fail("columns without a batch are not read");
  const Columns c(call);
  const std::vector<int64_t> size = Columns::pair_of(call, "output_size", 1, Columns::kMaxPlaces);
  const Value at_rows = c.places(call, 0, size[0]), at_columns = c.places(call, 1, size[1]);
  const Dim rows = c.windows(0, size[0]), columns = c.windows(1, size[1]);
  const int64_t taps = c.kernel[0] * c.kernel[1];
  const auto whole = x.dim(1).divide_exact(taps);
  if (!whole) fail("{} values a column are not made of windows of {} elements", x.dim(1).to_string(), taps);
  const Dim channels = *whole;
  Value y = reshape(x, {x.dim(0), channels, c.kernel[0], c.kernel[1], rows, columns});
  y = reshape(permute(y, {0, 1, 2, 4, 3, 5}),
              {x.dim(0), channels, rows * c.kernel[0], columns * c.kernel[1]});
  const int64_t height = size[0] + 2 * c.padding[0], width = size[1] + 2 * c.padding[1];
  y = index_add(call.g().zeros({x.dim(0), channels, rows * c.kernel[0], width}, x.dtype()), 3, at_columns, y);
  y = index_add(call.g().zeros({x.dim(0), channels, height, width}, x.dtype()), 2, at_rows, y);
  return narrow(narrow(y, 2, c.padding[0], size[0]), 3, c.padding[1], size[1]);
}

}  // namespace

const Operators& image_operators() {
  static const Operators kOperators = {
      {"aten.channel_shuffle.default", one<channels_shuffled>},
      {"aten.col2im.default", one<picture_of_columns>},
      {"aten.grid_sampler.default", one<sampled>},
      {"aten.grid_sampler_2d.default", one<sampled>},
      {"aten.grid_sampler_3d.default", one<sampled>},
      {"aten.im2col.default", one<columns_of>},
      {"aten.max_pool2d_with_indices.default", pooled_with_places<2>},
      {"aten.max_pool3d_with_indices.default", pooled_with_places<3>},
      {"aten.pixel_unshuffle.default", one<channels_from_pixels>},
      {"aten.reflection_pad1d.default", one<padded<PadMode::kReflect>>},
      {"aten.reflection_pad2d.default", one<padded<PadMode::kReflect>>},
      {"aten.reflection_pad3d.default", one<padded<PadMode::kReflect>>},
      {"aten.replication_pad1d.default", one<padded<PadMode::kReplicate>>},
      {"aten.replication_pad2d.default", one<padded<PadMode::kReplicate>>},
      {"aten.replication_pad3d.default", one<padded<PadMode::kReplicate>>},
      {"aten._upsample_bicubic2d_aa.vec", one<resized<kCubic, true>>},
      {"aten._upsample_bilinear2d_aa.vec", one<resized<kLinear, true>>},
      {"aten.upsample_bicubic2d.vec", one<resized<kCubic>>},
      {"aten.upsample_bilinear2d.vec", one<resized<kLinear>>},
      {"aten.upsample_linear1d.vec", one<resized<kLinear>>},
      {"aten.upsample_nearest1d.vec", one<resized<kNearest>>},
      {"aten.upsample_nearest2d.vec", one<resized<kNearest>>},
      {"aten.upsample_nearest3d.vec", one<resized<kNearest>>},
      {"aten._upsample_nearest_exact1d.vec", one<resized<kExact>>},
      {"aten._upsample_nearest_exact2d.vec", one<resized<kExact>>},
      {"aten._upsample_nearest_exact3d.vec", one<resized<kExact>>},
      {"aten.upsample_trilinear3d.vec", one<resized<kLinear>>},
      {"torchvision.deform_conv2d.default", one<convolved_at_offsets>},
      {"torchvision.roi_align.default", one<regions_aligned>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
