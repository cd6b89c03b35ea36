#include "backends/cuda/convolution/pool_packs.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxTaps = 255;  // a byte names a tap of a window; kMaxTaps itself: none
constexpr int kAtOnce = 3;     // taps of a row of a window that are loaded before the first is compared

// One spatial axis of a WindowAxis in 32 bits, whose divisions are several times as fast.
struct Axis {
  int size, positions, taps, stride, dilation, begin;
  Divisor by_size, by_positions, by_stride, by_dilation;

  __device__ int element(int position, int tap) const { return position * stride + tap * dilation - begin; }
  __device__ bool contains(int element) const { return element >= 0 && element < size; }
  // Return the first and the last position whose window spans the element.
  __device__ int first_position(int element) const {
    const int from = element + begin - (taps - 1) * dilation;
    return from <= 0 ? 0 : static_cast<int>(by_stride.quotient(static_cast<uint32_t>(from + stride - 1)));
  }
  __device__ int last_position(int element) const {
    return min(positions - 1, static_cast<int>(by_stride.quotient(static_cast<uint32_t>(element + begin))));
  }
  // Returns the tap that meets the element at a position whose window spans it, or -1.
  __device__ int tap_at(int element, int position) const {
    const auto distance = static_cast<uint32_t>(element + begin - position * stride);
    const uint32_t tap = by_dilation.quotient(distance);
    return tap * by_dilation.size == distance ? static_cast<int>(tap) : -1;
  }
};

struct Axes {
  Axis z, y, x;
  int packs;  // packs that the channels fill
  Divisor by_packs;
};

Axes axes_of(const PoolShape& s, int width) {
  const auto axis = [&](int i) {
    const WindowAxis& a = s.windows.axis[i];
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    return Axis{number(a.size),          number(a.positions),       number(a.taps),
                number(a.stride),        number(a.dilation),        number(a.begin),
                make_divisor(a.size),    make_divisor(a.positions), make_divisor(a.stride),
                make_divisor(a.dilation)};
  };
  const int64_t packs = s.layout.channels / width;
  return {axis(0), axis(1), axis(2), static_cast<int>(packs), make_divisor(packs)};
}

// The location of a flat number in [images, z, y, x, packs], whose axes have the given sizes.
struct Location {
  int pack, x, y, z;
  int64_t image;

  __device__ Location(uint32_t flat, const Axes& a, const Divisor& by_x, const Divisor& by_y,
                      const Divisor& by_z) {
    const auto next = [&](const Divisor& by) {
      const uint32_t rest = by.quotient(flat);
      const auto at = static_cast<int>(flat - rest * by.size);
      flat = rest;
      return at;
    };
    pack = next(a.by_packs), x = next(by_x), y = next(by_y), z = next(by_z), image = flat;
  }
};

// The first greatest elements of a window, where NaN is greatest.
template <class T>
struct Greatest {
  static constexpr int N = 16 / sizeof(T);
  float value[N];
  int tap[N];

  __device__ Greatest(const Axes& a, const Location& at, const Words* x) {
    x += at.image * a.z.size * a.y.size * a.x.size * a.packs + at.pack;
#pragma unroll
    for (int j = 0; j < N; ++j) value[j] = -INFINITY, tap[j] = kMaxTaps;
    for (int tz = 0; tz < a.z.taps; ++tz)
      for (int ty = 0; ty < a.y.taps; ++ty) {
        const int z = a.z.element(at.z, tz), y = a.y.element(at.y, ty);
        if (a.z.contains(z) && a.y.contains(y))
          compare_row(a, at, x + int64_t{z * a.y.size + y} * a.x.size * a.packs,
                      (tz * a.y.taps + ty) * a.x.taps);
      }
  }

  __device__ void compare_row(const Axes& a, const Location& at, const Words* row, int first) {
    for (int tx = 0; tx < a.x.taps; tx += kAtOnce) {
      Words p[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int element = min(max(a.x.element(at.x, tx + i), 0), a.x.size - 1);
        p[i] = row[int64_t{element} * a.packs];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (tx + i < a.x.taps && a.x.contains(a.x.element(at.x, tx + i))) compare(p[i], first + tx + i);
    }
  }
  __device__ void compare(const Words& p, int t) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float v = element_of<T>(p, j);
      const bool wins = tap[j] == kMaxTaps || v > value[j] || (v != v && value[j] == value[j]);
      value[j] = wins ? v : value[j];
      tap[j] = wins ? t : tap[j];
    }
  }
};

// NaN is greatest.
template <class T>
__device__ __forceinline__ uint32_t greater(uint32_t a, uint32_t b) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(MaxOrNan{}(__uint_as_float(a), __uint_as_float(b)));
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Pair larger = __hmax2_nan(reinterpret_cast<const Pair&>(a), reinterpret_cast<const Pair&>(b));
    return reinterpret_cast<const uint32_t&>(larger);
  }
}

template <class T>
struct PackedMaxPool {
  Axes a;
  const Words* x;
  Words* y;

  __device__ void operator()(int64_t i) const {
    const Location at(static_cast<uint32_t>(i), a, a.x.by_positions, a.y.by_positions, a.z.by_positions);
    const Words* from = x + at.image * a.z.size * a.y.size * a.x.size * a.packs + at.pack;
    Words greatest = lowest_words<T>();
    for (int tz = 0; tz < a.z.taps; ++tz)
      for (int ty = 0; ty < a.y.taps; ++ty) {
        const int z = a.z.element(at.z, tz), y = a.y.element(at.y, ty);
        if (a.z.contains(z) && a.y.contains(y))
          take_row(greatest, from + int64_t{z * a.y.size + y} * a.x.size * a.packs, at.x);
      }
    y[i] = greatest;
  }

  __device__ void take_row(Words& greatest, const Words* row, int px) const {
    for (int tx = 0; tx < a.x.taps; tx += kAtOnce) {
      Words p[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int element = a.x.element(px, tx + i);
        const bool is_in = tx + i < a.x.taps && a.x.contains(element);
        p[i] = is_in ? row[int64_t{element} * a.packs] : lowest_words<T>();
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int word = 0; word < 4; ++word)
          set_word(greatest, word, greater<T>(word_of(greatest, word), word_of(p[i], word)));
    }
  }
};

// The usual pooling of images, 3 x 3 by strides of 2, reads two rows of windows at once: the rows that they share are then read
// once, and few enough loads are in flight to stay in registers.
template <class T>
struct MaxPoolOfThree {
  static constexpr int kTaps = 3, kStride = 2, kRows = 2, kReads = (kRows - 1) * kStride + kTaps;
  Axes a;
  Divisor by_strips;
  const Words* x;
  Words* y;

  static bool takes(const PoolShape& s) {
    const auto& [z, y, x] = s.windows.axis;
    const auto is_three = [](const WindowAxis& axis) {
      return axis.taps == kTaps && axis.stride == kStride && axis.dilation == 1;
    };
    return is_single(z) && is_three(y) && is_three(x);
  }
  static int64_t strips_of(const Axes& a) { return blocks_for(a.y.positions, kRows); }

  __device__ void operator()(int64_t i) const {
    const Location at(static_cast<uint32_t>(i), a, a.x.by_positions, by_strips, a.z.by_positions);
    const int top = at.y * kRows * kStride - a.y.begin, left = at.x * kStride - a.x.begin;
    const Words* image = x + at.image * a.y.size * a.x.size * a.packs + at.pack;
    Words read[kReads][kTaps];
#pragma unroll
    for (int row = 0; row < kReads; ++row)
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const bool is_in = a.y.contains(top + row) && a.x.contains(left + tap);
        read[row][tap] =
            is_in ? image[int64_t{(top + row) * a.x.size + left + tap} * a.packs] : lowest_words<T>();
      }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int py = at.y * kRows + row;
      if (py >= a.y.positions) break;
      Words greatest = lowest_words<T>();
#pragma unroll
      for (int tap = 0; tap < kTaps * kTaps; ++tap)
#pragma unroll
        for (int word = 0; word < 4; ++word)
          set_word(greatest, word,
                   greater<T>(word_of(greatest, word),
                              word_of(read[row * kStride + tap / kTaps][tap % kTaps], word)));
      y[((at.image * a.y.positions + py) * a.x.positions + at.x) * a.packs + at.pack] = greatest;
    }
  }
};

// The gradient has two kernels: one writes the tap of each window's greatest element, as a byte; in the other one a thread has a
// pack of elements, and adds the gradients of the windows around it whose byte names its tap.
template <class T>
struct GreatestTaps {
  static constexpr int N = 16 / sizeof(T);
  Axes a;
  const Words* x;
  Pack<uint8_t, N>* taps;

  __device__ void operator()(int64_t i) const {
    const Location at(static_cast<uint32_t>(i), a, a.x.by_positions, a.y.by_positions, a.z.by_positions);
    const Greatest<T> best(a, at, x);
    Pack<uint8_t, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.at[j] = static_cast<uint8_t>(best.tap[j]);
    taps[i] = result;
  }
};

template <class T>
struct PackedMaxPoolGrad {
  static constexpr int N = 16 / sizeof(T);
  Axes a;
  const Pack<uint8_t, N>* taps;
  const Words* dy;
  Words* dx;

  __device__ void operator()(int64_t i) const {
    const Location at(static_cast<uint32_t>(i), a, a.x.by_size, a.y.by_size, a.z.by_size);
    const int64_t image = at.image * a.z.positions * a.y.positions * a.x.positions * a.packs + at.pack;
    float sum[N] = {};
    for (int z = a.z.first_position(at.z); z <= a.z.last_position(at.z); ++z)
      for (int y = a.y.first_position(at.y); y <= a.y.last_position(at.y); ++y) {
        const int tz = a.z.tap_at(at.z, z), ty = a.y.tap_at(at.y, y);
        if (tz < 0 || ty < 0) continue;
        const int64_t row = image + int64_t{z * a.y.positions + y} * a.x.positions * a.packs;
        for (int x = a.x.first_position(at.x); x <= a.x.last_position(at.x); ++x)
          if (const int tx = a.x.tap_at(at.x, x); tx >= 0)
            add(sum, row + int64_t{x} * a.packs, (tz * a.y.taps + ty) * a.x.taps + tx);
      }
    dx[i] = words_of<T>(sum);
  }

  __device__ void add(float (&sum)[N], int64_t place, int tap) const {
    const Pack<uint8_t, N> greatest = taps[place];
    const Words d = dy[place];
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (greatest.at[j] == tap) sum[j] += element_of<T>(d, j);
  }
};

std::optional<std::string> packs_decline(const KernelQuery& query) {
  const PoolShape s = pool_shape(query);
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (s.dtype == DType::f64) return "takes f32, bf16 and f16";
  if (!s.layout.last) return "takes channels behind the spatial axes";
  if (s.layout.channels % (16 / static_cast<int64_t>(size_of(s.dtype))) != 0)
    return "takes channels that fill 16 bytes";
  if (checked_mul(s.planes, std::max(s.windows.elements(), s.windows.positions())) > most)
    return "takes fewer than 2^31 elements";
  if (std::ranges::any_of(s.windows.axis, [](const WindowAxis& a) { return a.begin < 0; }))
    return "takes no negative padding";
  if (s.windows.taps() > kMaxTaps) return "takes windows of at most 255 elements";
  return std::nullopt;
}

// Calls body(Tag<T>, count of packs of T in a tensor); returns false if a tensor is not aligned.
template <class Body>
bool with_aligned_packs(const KernelContext& c, const Body& body) {
  if (!aligned_to_packs(c)) return false;
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) body(tag, [](const TensorView& v) { return v.bytes() / 16; });
  });
  return true;
}

void run_max(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  const bool ran = with_aligned_packs(c, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    const Axes axes = axes_of(s, 16 / sizeof(T));
    const auto* x = c.input(0).as<const Words>();
    auto* y = c.output().as<Words>();
    if (!MaxPoolOfThree<T>::takes(s)) return for_each(c, count(c.output()), PackedMaxPool<T>{axes, x, y});
    const int64_t strips = MaxPoolOfThree<T>::strips_of(axes);
    for_each(c, s.planes / s.layout.channels * strips * axes.x.positions * axes.packs,
             MaxPoolOfThree<T>{axes, make_divisor(strips), x, y});
  });
  if (!ran) run_max_pool(c);
}

void run_max_grad(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  const bool ran = with_aligned_packs(c, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    const Axes axes = axes_of(s, 16 / sizeof(T));
    auto* taps = reinterpret_cast<Pack<uint8_t, 16 / sizeof(T)>*>(c.scratch);
    for_each(c, count(c.input(1)), GreatestTaps<T>{axes, c.input(0).as<const Words>(), taps});
    for_each(c, count(c.output()),
             PackedMaxPoolGrad<T>{axes, taps, c.input(1).as<const Words>(), c.output().as<Words>()});
  });
  if (!ran) run_max_pool_grad(c);
}

int64_t taps_bytes(const KernelQuery& query) { return query.inputs[1].numel(); }

}  // namespace

KernelImpl packed_max_pool() {
  return {.name = "packs", .run = run_max, .can_run = packs_decline, .prepare = prepare_pool};
}
KernelImpl packed_max_pool_grad() {
  return {.name = "packs",
          .run = run_max_grad,
          .can_run = packs_decline,
          .scratch_bytes = taps_bytes,
          .prepare = prepare_pool};
}

}  // namespace genesis::cuda
