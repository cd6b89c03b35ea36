// Operands and results of convolutions as f32 arrays: those of 16 bits are converted in scratch memory.
#pragma once

#include <algorithm>

#include "backends/cpu/convolution/planes.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {

// Hands out ranges of scratch memory while a plan is made.
class ScratchCut {
 public:
  // Returns the offset in bytes of `count` floats.
  int64_t take(CheckedSize count) {
    const int64_t offset = bytes_;
    bytes_ = (CheckedSize(bytes_) + (count * 4).rounded_up(64)).value();
    return offset;
  }
  int64_t take_unless_f32(DType dtype, CheckedSize count) { return dtype == DType::f32 ? 0 : take(count); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

inline float* floats_at(std::byte* scratch, int64_t offset) {
  return reinterpret_cast<float*>(scratch + offset);
}

// Returns the elements as f32: where they lie, or converted at `offset`.
inline const float* as_floats(const TensorView& x, std::byte* scratch, int64_t offset) {
  if (x.dtype == DType::f32) return x.as<const float>();
  float* to = floats_at(scratch, offset);
  parallel_rows(x.numel(), 4, [&](int64_t first, int64_t last) {
    if (x.dtype == DType::bf16)
      std::copy(x.as<const bf16>() + first, x.as<const bf16>() + last, to + first);
    else
      std::copy(x.as<const f16>() + first, x.as<const f16>() + last, to + first);
  });
  return to;
}

// Writes a result that was computed as f32 somewhere else; does nothing if it lies there.
inline void write_result(const float* from, const TensorView& y) {
  if (y.dtype == DType::f32) return;
  parallel_rows(y.numel(), 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      if (y.dtype == DType::bf16)
        y.as<bf16>()[i] = bf16(from[i]);
      else
        y.as<f16>()[i] = f16(from[i]);
  });
}

// Images whose planes are made at a time: as many as fit a last-level cache.
inline int64_t images_at_once(int64_t batch, int64_t channels, const PlaneLayout& layout) {
  constexpr int64_t kBytes = 16 << 20;
  const int64_t each = (CheckedSize(layout.channel()) * std::max<int64_t>(channels, 1) * 4).value();
  return std::clamp<int64_t>(kBytes / std::max<int64_t>(each, 1), 1, std::max<int64_t>(batch, 1));
}

// Splits the channels of some images, which lie at `x` [images * channels][elements].
inline void split_images(const PlaneLayout& layout, DType dtype, const std::byte* x, int64_t channels,
                         float padding, float* planes) {
  const int64_t bytes = layout.elements() * static_cast<int64_t>(size_of(dtype));
  parallel_rows(channels, layout.channel() * 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      split_channel(layout, dtype, x + i * bytes, padding, planes + i * layout.channel());
  });
}

}  // namespace genesis::cpu
