#include "backends/cuda/convolution/pool_packs.h"

#include <limits>

#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

// One spatial axis of a WindowAxis in 32 bits, whose divisions are several times as fast.
struct Axis {
  int size, positions, taps, stride, dilation, begin;

  __device__ int element(int position, int tap) const { return position * stride + tap * dilation - begin; }
  __device__ bool contains(int element) const { return element >= 0 && element < size; }
  // Returns the position at which a tap meets the element, or -1.
  __device__ int position_of(int element, int tap) const {
    const int distance = element + begin - tap * dilation;
    if (distance < 0 || distance % stride != 0) return -1;
    return distance / stride < positions ? distance / stride : -1;
  }
};

struct Axes {
  Axis z, y, x;
  int packs;  // packs that the channels fill
};

Axes axes_of(const PoolShape& s, int width) {
  const auto axis = [&](int i) {
    const WindowAxis& a = s.windows.axis[i];
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    return Axis{number(a.size),   number(a.positions), number(a.taps),
                number(a.stride), number(a.dilation),  number(a.begin)};
  };
  return {axis(0), axis(1), axis(2), static_cast<int>(s.layout.channels / width)};
}

// Calls body(tap, element) for the taps at a position that meet elements, in row-major order.
template <class Body>
__device__ void for_each_tap_at(const Axes& a, int pz, int py, int px, const Body& body) {
  int tap = 0;
  for (int tz = 0; tz < a.z.taps; ++tz)
    for (int ty = 0; ty < a.y.taps; ++ty)
      for (int tx = 0; tx < a.x.taps; ++tx, ++tap) {
        const int z = a.z.element(pz, tz), y = a.y.element(py, ty), x = a.x.element(px, tx);
        if (a.z.contains(z) && a.y.contains(y) && a.x.contains(x))
          body(tap, (z * a.y.size + y) * a.x.size + x);
      }
}

// The first greatest elements of a window, where NaN is greatest.
template <class T, int N>
struct Greatest {
  wide_t<T> value[N];
  int tap[N];

  __device__ Greatest(const Axes& a, int pz, int py, int px, const Pack<T, N>* x) {
#pragma unroll
    for (int j = 0; j < N; ++j) value[j] = -INFINITY, tap[j] = -1;
    for_each_tap_at(a, pz, py, px, [&](int t, int element) {
      const Pack<T, N> p = x[int64_t{element} * a.packs];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const wide_t<T> v = widen(p.at[j]);
        const bool wins = tap[j] < 0 || v > value[j] || (v != v && value[j] == value[j]);
        value[j] = wins ? v : value[j];
        tap[j] = wins ? t : tap[j];
      }
    });
  }
};

template <class T, int N>
struct PackedMaxPool {
  Axes a;
  const Pack<T, N>* x;
  Pack<T, N>* y;

  __device__ void operator()(int64_t i) const {
    const auto at = static_cast<unsigned>(i);
    const int pack = static_cast<int>(at % a.packs);
    unsigned place = at / a.packs;
    const int px = static_cast<int>(place % a.x.positions);
    place /= a.x.positions;
    const int py = static_cast<int>(place % a.y.positions);
    place /= a.y.positions;
    const int pz = static_cast<int>(place % a.z.positions);
    const int64_t image = place / a.z.positions;
    const Greatest<T, N> best(a, pz, py, px, x + image * a.z.size * a.y.size * a.x.size * a.packs + pack);
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.at[j] = narrow<T>(best.value[j]);
    y[i] = result;
  }
};

template <class T, int N>
struct PackedMaxPoolGrad {
  Axes a;
  const Pack<T, N>*x, *dy;
  Pack<T, N>* dx;

  __device__ void operator()(int64_t i) const {
    const auto at = static_cast<unsigned>(i);
    const int pack = static_cast<int>(at % a.packs);
    unsigned place = at / a.packs;
    const int ex = static_cast<int>(place % a.x.size);
    place /= a.x.size;
    const int ey = static_cast<int>(place % a.y.size);
    place /= a.y.size;
    const int ez = static_cast<int>(place % a.z.size);
    const int64_t image = place / a.z.size;
    const Pack<T, N>* from = x + image * a.z.size * a.y.size * a.x.size * a.packs + pack;
    const Pack<T, N>* gradient = dy + image * a.z.positions * a.y.positions * a.x.positions * a.packs + pack;
    wide_t<T> sum[N] = {};
    int tap = 0;
    for (int tz = 0; tz < a.z.taps; ++tz)
      for (int ty = 0; ty < a.y.taps; ++ty)
        for (int tx = 0; tx < a.x.taps; ++tx, ++tap) {
          const int pz = a.z.position_of(ez, tz), py = a.y.position_of(ey, ty), px = a.x.position_of(ex, tx);
          if (pz >= 0 && py >= 0 && px >= 0) add(sum, tap, pz, py, px, from, gradient);
        }
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.at[j] = narrow<T>(sum[j]);
    dx[i] = result;
  }

  // Adds dy at a position where the element, which `tap` meets, is the greatest.
  __device__ void add(wide_t<T> (&sum)[N], int tap, int pz, int py, int px, const Pack<T, N>* from,
                      const Pack<T, N>* gradient) const {
    const Greatest<T, N> best(a, pz, py, px, from);
    const Pack<T, N> d = gradient[int64_t{(pz * a.y.positions + py) * a.x.positions + px} * a.packs];
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (best.tap[j] == tap) sum[j] += widen(d.at[j]);
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
  return std::nullopt;
}

// Calls body(Tag<T>, width of packs); returns false if a tensor is not aligned.
template <class Body>
bool with_aligned_packs(const KernelContext& c, const Body& body) {
  if (!aligned_to_packs(c)) return false;
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) body(tag, std::integral_constant<int, 16 / sizeof(T)>{});
  });
  return true;
}

void run_max(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  const bool ran = with_aligned_packs(c, [&](auto tag, auto width) {
    using P = Pack<typename decltype(tag)::type, decltype(width)::value>;
    for_each(c, c.output().numel() / width,
             PackedMaxPool<typename decltype(tag)::type, decltype(width)::value>{
                 axes_of(s, width), c.input(0).as<const P>(), c.output().as<P>()});
  });
  if (!ran) run_max_pool(c);
}

void run_max_grad(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  const bool ran = with_aligned_packs(c, [&](auto tag, auto width) {
    using P = Pack<typename decltype(tag)::type, decltype(width)::value>;
    for_each(c, c.output().numel() / width,
             PackedMaxPoolGrad<typename decltype(tag)::type, decltype(width)::value>{
                 axes_of(s, width), c.input(0).as<const P>(), c.input(1).as<const P>(), c.output().as<P>()});
  });
  if (!ran) run_max_pool_grad(c);
}

}  // namespace

KernelImpl packed_max_pool() {
  return {.name = "packs", .run = run_max, .can_run = packs_decline, .prepare = prepare_pool};
}
KernelImpl packed_max_pool_grad() {
  return {.name = "packs", .run = run_max_grad, .can_run = packs_decline, .prepare = prepare_pool};
}

}  // namespace genesis::cuda
