#include "backends/cpu/convolution/planes.h"

#include <algorithm>
#include <cstring>

namespace genesis::cpu {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Copies the elements of one phase of one row.
template <class T>
void split_row(const PlaneAxis& axis, int64_t phase, const T* row, float padding, float* to) {
  const int64_t shift = phase - axis.begin;  // element i is row[i * stride + shift]
  const int64_t first = std::clamp<int64_t>(-floor_div(shift, axis.stride), 0, axis.extent);
  const int64_t last =
      std::clamp<int64_t>(floor_div(axis.size - 1 - shift, axis.stride) + 1, first, axis.extent);
  std::fill(to, to + first, padding);
  if constexpr (std::is_same_v<T, float>) {
    if (axis.stride == 1)
      std::copy(row + first + shift, row + last + shift, to + first);
    else
      for (int64_t i = first; i < last; ++i) to[i] = row[i * axis.stride + shift];
  } else {
    for (int64_t i = first; i < last; ++i) to[i] = static_cast<float>(row[i * axis.stride + shift]);
  }
  std::fill(to + last, to + axis.extent, padding);
}

template <class T>
void split(const PlaneLayout& layout, const T* image, float padding, float* to) {
  const auto& [outer, middle, inner] = layout.axis;
  const int64_t phases = outer.phases * middle.phases * inner.phases;
  for (int64_t phase = 0; phase < phases; ++phase) {
    const int64_t p2 = phase % inner.phases, p1 = phase / inner.phases % middle.phases,
                  p0 = phase / inner.phases / middle.phases;
    for (int64_t i0 = 0; i0 < outer.extent; ++i0)
      for (int64_t i1 = 0; i1 < middle.extent; ++i1, to += inner.extent) {
        const int64_t at0 = i0 * outer.stride + p0 - outer.begin,
                      at1 = i1 * middle.stride + p1 - middle.begin;
        if (at0 < 0 || at0 >= outer.size || at1 < 0 || at1 >= middle.size)
          std::fill(to, to + inner.extent, padding);
        else
          split_row(inner, p2, image + (at0 * middle.size + at1) * inner.size, padding, to);
      }
  }
}

}  // namespace

int64_t PlaneLayout::offset(const std::array<int64_t, kMaxSpatialAxes>& reach) const {
  int64_t phase = 0, at = 0;
  for (size_t i = 0; i < kMaxSpatialAxes; ++i) {
    phase = phase * axis[i].phases + reach[i] % axis[i].stride;
    at = at * axis[i].extent + reach[i] / axis[i].stride;
  }
  return phase * plane() + at;
}

bool PlaneLayout::is_image() const {
  return std::ranges::all_of(
      axis, [](const PlaneAxis& a) { return a.stride == 1 && a.begin == 0 && a.extent == a.size; });
}

int PlaneLayout::list_runs(int64_t first, int64_t count, Run* runs) const {
  const auto& [outer, middle, inner] = axis;
  const bool joins_rows = inner.extent == inner.positions;
  const int64_t row = joins_rows ? middle.positions * inner.positions : inner.positions;
  int number = 0;
  for (int64_t done = 0; done < count; ++number) {
    const int64_t position = first + done, x = position % inner.positions,
                  y = position / inner.positions % middle.positions,
                  z = position / inner.positions / middle.positions;
    const int64_t size = std::min(count - done, row - position % row);
    runs[number] = {(z * middle.extent + y) * inner.extent + x, done, size};
    done += size;
  }
  return number;
}

PlaneLayout planes_of(const WindowShape& windows) {
  PlaneLayout layout;
  for (size_t i = 0; i < kMaxSpatialAxes; ++i) {
    const WindowAxis& a = windows.axis[i];
    const int64_t reach = (a.taps - 1) * a.dilation;
    layout.axis[i] = {
        a.size,     a.begin, a.stride, std::min(a.stride, reach + 1), a.positions + reach / a.stride,
        a.positions};
  }
  return layout;
}

std::vector<int64_t> tap_offsets(const WindowShape& windows, const PlaneLayout& layout) {
  const auto& [outer, middle, inner] = windows.axis;
  std::vector<int64_t> offsets;
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1)
      for (int64_t t2 = 0; t2 < inner.taps; ++t2)
        offsets.push_back(layout.offset({t0 * outer.dilation, t1 * middle.dilation, t2 * inner.dilation}));
  return offsets;
}

void split_channel(const PlaneLayout& layout, DType dtype, const void* image, float padding, float* planes) {
  if (dtype == DType::bf16) return split(layout, static_cast<const bf16*>(image), padding, planes);
  if (dtype == DType::f16) return split(layout, static_cast<const f16*>(image), padding, planes);
  split(layout, static_cast<const float*>(image), padding, planes);
}

}  // namespace genesis::cpu
