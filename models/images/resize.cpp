// Resizing with an antialiasing filter in integers, so that every machine computes the same bytes (Pillow, Resample.c).
#include <algorithm>
#include <cmath>

#include "models/images/picture.h"

namespace genesis::images {
namespace {

constexpr int kBits = 22;  // fractional bits of a weight; a sum of weights times bytes fits in 32 bits

double weight_of(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;  // Keys' cubic convolution
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// The input elements that one output element is made from: `weights[first_weight...]` times the elements from `begin` on.
struct Taps {
  int64_t begin = 0, count = 0;
  size_t first_weight = 0;
};
struct Axis {
  std::vector<Taps> taps;
  std::vector<int32_t> weights;
};

Axis axis_of(int64_t size_in, int64_t size_out, Filter filter) {
  const double scale = static_cast<double>(size_in) / static_cast<double>(size_out),
               filter_scale = std::max(scale, 1.0);
  const double support = (filter == Filter::kBilinear ? 1 : 2) * filter_scale, inverse = 1 / filter_scale;
  Axis axis;
  std::vector<double> weights;
  for (int64_t i = 0; i < size_out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<int64_t>(center + support + 0.5), size_in);
    weights.clear();
    double sum = 0;
    for (int64_t x = begin; x < end; ++x) {
      weights.push_back(weight_of(filter, (static_cast<double>(x) - center + 0.5) * inverse));
      sum += weights.back();
    }
    axis.taps.push_back({begin, end - begin, axis.weights.size()});
    for (const double weight : weights) {
      const double fixed = (sum != 0 ? weight / sum : weight) * (1 << kBits);
      axis.weights.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
  return axis;
}

uint8_t byte_of(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

// Resizes the rows [top, top + height) of the box horizontally.
Picture resized_rows(const Picture& picture, const Box& box, int64_t width, Filter filter) {
  const Axis axis = axis_of(box.width, width, filter);
  Picture result{width, box.height, std::vector<uint8_t>(static_cast<size_t>(width * box.height * 3))};
  uint8_t* to = result.rgb.data();
  for (int64_t y = 0; y < box.height; ++y) {
    const uint8_t* row = &picture.rgb[static_cast<size_t>(((box.top + y) * picture.width + box.left) * 3)];
    for (const Taps& taps : axis.taps) {
      int32_t red = 1 << (kBits - 1), green = red, blue = red;
      const uint8_t* from = row + taps.begin * 3;
      const int32_t* weights = &axis.weights[taps.first_weight];
      for (int64_t i = 0; i < taps.count; ++i, from += 3) {
        red += from[0] * weights[i];
        green += from[1] * weights[i];
        blue += from[2] * weights[i];
      }
      *to++ = byte_of(red), *to++ = byte_of(green), *to++ = byte_of(blue);
    }
  }
  return result;
}

Picture resized_columns(const Picture& picture, int64_t height, Filter filter) {
  const Axis axis = axis_of(picture.height, height, filter);
  const auto row_bytes = static_cast<size_t>(picture.width * 3);
  Picture result{picture.width, height, std::vector<uint8_t>(row_bytes * static_cast<size_t>(height))};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* to = result.rgb.data();
  for (const Taps& taps : axis.taps) {
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (int64_t i = 0; i < taps.count; ++i) {
      const uint8_t* from = &picture.rgb[static_cast<size_t>(taps.begin + i) * row_bytes];
      const int32_t weight = axis.weights[taps.first_weight + static_cast<size_t>(i)];
      for (size_t x = 0; x < row_bytes; ++x) sums[x] += from[x] * weight;
    }
    for (size_t x = 0; x < row_bytes; ++x) *to++ = byte_of(sums[x]);
  }
  return result;
}

}  // namespace

Picture resized(const Picture& picture, const Box& box, int64_t width, int64_t height, Filter filter) {
  const Picture rows = width == box.width ? cropped(picture, box) : resized_rows(picture, box, width, filter);
  return height == box.height ? rows : resized_columns(rows, height, filter);
}

}  // namespace genesis::images
