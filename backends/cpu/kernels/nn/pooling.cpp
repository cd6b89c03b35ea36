// Pooling. The forward passes of f32, bf16 and f16 combine shifted planes (backends/cpu/convolution); the references and the
// gradients visit the elements of each window.
#include "schema/ops/nn/pooling.h"

#include <algorithm>
#include <limits>

#include "backends/common/window_shape.h"
#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/planes.h"
#include "backends/cpu/convolution/tiles.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/parallel/task_scratch.h"

namespace genesis::cpu {
namespace {

// Calls body(position, element) for each position and each element in its window, the window's elements in row-major order.
template <class Body>
void for_each_element(const WindowShape& windows, int64_t position, const Body& body) {
  const auto& [outer, middle, inner] = windows.axis;
  const int64_t p2 = position % inner.positions, p1 = position / inner.positions % middle.positions,
                p0 = position / inner.positions / middle.positions;
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1) {
      const int64_t z = outer.element(p0, t0), y = middle.element(p1, t1);
      if (!outer.contains(z) || !middle.contains(y)) continue;
      for (int64_t t2 = 0; t2 < inner.taps; ++t2)
        if (const int64_t x = inner.element(p2, t2); inner.contains(x))
          body((z * middle.size + y) * inner.size + x);
    }
}

// Returns the number by which the window at a position is divided.
double count_at(const PoolShape& s, int64_t position) {
  const auto& [outer, middle, inner] = s.windows.axis;
  return static_cast<double>(outer.counted(position / inner.positions / middle.positions, s.count_padding) *
                             middle.counted(position / inner.positions % middle.positions, s.count_padding) *
                             inner.counted(position % inner.positions, s.count_padding));
}

// The elements of one plane, which lie `step` apart.
template <class T>
struct Plane {
  T* first;
  int64_t step;

  T& operator[](int64_t i) const { return first[i * step]; }
};
template <class T>
Plane<T> plane_at(const PoolShape& s, T* tensor, int64_t plane, int64_t size) {
  return {tensor + s.layout.first(plane, size), s.layout.step()};
}

// Returns the first greatest element of a window, where NaN is greatest; -1 if it has none.
template <class T>
int64_t greatest_of(const WindowShape& windows, int64_t position, const Plane<T>& x) {
  int64_t best = -1;
  double greatest = 0;
  for_each_element(windows, position, [&](int64_t element) {
    const auto value = static_cast<double>(x[element]);
    if (best >= 0 && !(value > greatest) && !(value != value && greatest == greatest)) return;
    best = element, greatest = value;
  });
  return best;
}

template <class T>
void max_of_plane(const PoolShape& s, const Plane<T>& x, const Plane<T>& y) {
  for (int64_t i = 0; i < s.windows.positions(); ++i) {
    const int64_t best = greatest_of(s.windows, i, x);
    y[i] = best < 0 ? T(-std::numeric_limits<float>::infinity()) : x[best];
  }
}
template <class T>
void average_of_plane(const PoolShape& s, const Plane<T>& x, const Plane<T>& y) {
  for (int64_t i = 0; i < s.windows.positions(); ++i) {
    double sum = 0;
    for_each_element(s.windows, i, [&](int64_t element) { sum += static_cast<double>(x[element]); });
    y[i] = static_cast<T>(sum / count_at(s, i));
  }
}

// Calls body(x of a plane, y of the plane) for each plane; `elements` are of one plane of the first and of the second tensor.
template <class Body>
void for_each_plane(const KernelContext& c, const TensorView& first, const TensorView& second,
                    const Body& body) {
  const auto& s = c.prepared<PoolShape>();
  const int64_t planes = s.planes;
  if (planes == 0) return;
  const int64_t a = first.numel() / planes, b = second.numel() / planes;
  dispatch(first.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>)
      parallel_rows(planes, (a + b) * 16, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i)
          body(i, plane_at(s, first.as<T>(), i, a), plane_at(s, second.as<T>(), i, b));
      });
  });
}

void run_plain_max(const KernelContext& c) {
  for_each_plane(c, c.input(0), c.output(),
                 [&](int64_t, auto x, auto y) { max_of_plane(c.prepared<PoolShape>(), x, y); });
}
void run_plain_average(const KernelContext& c) {
  for_each_plane(c, c.input(0), c.output(),
                 [&](int64_t, auto x, auto y) { average_of_plane(c.prepared<PoolShape>(), x, y); });
}

// --- gradients: a task sums the gradient of one plane in f32, or in f64 for f64

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

int64_t gradient_scratch(const KernelQuery& query) {
  const PoolShape s = pool_shape(query);
  return TaskScratch::bytes_for(s.planes, checked_mul(s.windows.elements(), 8));
}

// Calls add(sums, position, dy at the position) for every position of every plane, and writes the sums as dx.
template <class T, class Add>
void sum_planes(const KernelContext& c, const TensorView& dy_view, const Add& add) {
  const auto& s = c.prepared<PoolShape>();
  const int64_t elements = s.windows.elements(), positions = s.windows.positions();
  TaskScratch scratch(c.scratch, s.planes, elements * 8);
  parallel_rows(s.planes, (elements + positions) * 16, [&](int64_t first, int64_t last) {
    scratch.with([&](std::byte* buffer) {
      auto* sums = reinterpret_cast<Sum<T>*>(buffer);
      for (int64_t plane = first; plane < last; ++plane) {
        std::fill(sums, sums + elements, Sum<T>(0));
        const auto dy = plane_at(s, dy_view.as<const T>(), plane, positions);
        for (int64_t i = 0; i < positions; ++i) add(sums, plane, i, static_cast<Sum<T>>(dy[i]));
        const auto dx = plane_at(s, c.output().as<T>(), plane, elements);
        for (int64_t i = 0; i < elements; ++i) dx[i] = static_cast<T>(sums[i]);
      }
    });
  });
}

void run_max_gradient(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>)
      sum_planes<T>(c, c.input(1), [&](Sum<T>* sums, int64_t plane, int64_t i, Sum<T> dy) {
        const int64_t best =
            greatest_of(s.windows, i, plane_at(s, c.input(0).as<const T>(), plane, s.windows.elements()));
        if (best >= 0) sums[best] += dy;
      });
  });
}

void run_average_gradient(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>)
      sum_planes<T>(c, c.input(0), [&](Sum<T>* sums, int64_t, int64_t i, Sum<T> dy) {
        const auto each = static_cast<Sum<T>>(static_cast<double>(dy) / count_at(s, i));
        for_each_element(s.windows, i, [&](int64_t element) { sums[element] += each; });
      });
  });
}

// --- planes

struct PooledPlanes {
  PoolShape shape;
  PlaneLayout layout = {};
  std::vector<int64_t> taps = {};
  std::vector<float> ones = {};         // a weight for each tap
  std::vector<float> reciprocals = {};  // averages have 1 / count by position, one number if all are equal

  // A task has the planes of one channel, and one combined number for each element up to the last position.
  int64_t planes_bytes() const {
    return (CheckedSize(layout.channel() + kPlaneSlack) * 4).rounded_up(64).value();
  }
  int64_t task_bytes() const {
    return (CheckedSize(planes_bytes()) + CheckedSize(layout.span() + 2 * kPlaneSlack) * 4).value();
  }
};

std::vector<float> reciprocals_of(const PoolShape& s) {
  std::vector<float> all(static_cast<size_t>(s.windows.positions()));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(1 / count_at(s, static_cast<int64_t>(i)));
  if (std::ranges::all_of(all, [&](float r) { return r == all[0]; })) all.resize(1);
  return all;
}

PooledPlanes planes_of_pool(const KernelQuery& query) {
  PooledPlanes p{.shape = pool_shape(query)};
  p.layout = planes_of(p.shape.windows);
  p.taps = tap_offsets(p.shape.windows, p.layout);
  return p;
}

std::optional<std::string> planes_decline(const KernelQuery& query) {
  const PoolShape s = pool_shape(query);
  if (s.dtype == DType::f64) return "takes f32, bf16 and f16";
  if (s.layout.last) return "takes channels before the spatial axes";
  if (s.planes * s.windows.elements() == 0) return "takes tensors with elements";
  return std::nullopt;
}

template <bool kMax>
std::shared_ptr<const void> prepare_planes(const KernelQuery& query) {
  auto p = std::make_shared<PooledPlanes>(planes_of_pool(query));
  if constexpr (!kMax) {
    p->ones.assign(p->taps.size(), 1.0f);
    p->reciprocals = reciprocals_of(p->shape);
  }
  return p;
}

int64_t planes_scratch(const KernelQuery& query) {
  const PooledPlanes p = planes_of_pool(query);
  return TaskScratch::bytes_for(p.shape.planes, p.task_bytes());
}

// Writes the results of a channel, whose rows lie `pitch` apart.
template <class T>
void write_rows(const PooledPlanes& p, const float* from, T* y) {
  const auto& [outer, middle, inner] = p.layout.axis;
  int64_t position = 0;
  const bool by_position = p.reciprocals.size() > 1;
  const float all = p.reciprocals.empty() ? 1.0f : p.reciprocals[0];
  for (int64_t z = 0; z < outer.positions; ++z)
    for (int64_t row = 0; row < middle.positions; ++row) {
      const float* sums = from + (z * middle.extent + row) * inner.extent;
      for (int64_t x = 0; x < inner.positions; ++x, ++position)
        y[position] =
            static_cast<T>(sums[x] * (by_position ? p.reciprocals[static_cast<size_t>(position)] : all));
    }
}

template <bool kMax>
void run_planes(const KernelContext& c) {
  const auto& p = c.prepared<PooledPlanes>();
  const TileFunctions tile = tile_functions();
  const float padding = kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
  const int64_t elements = p.layout.elements(), positions = p.layout.positions();
  TaskScratch scratch(c.scratch, p.shape.planes, p.task_bytes());
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (sizeof(T) <= 4 && !std::is_integral_v<T>)
      parallel_rows(p.shape.planes, p.layout.channel() * 4, [&](int64_t first, int64_t last) {
        scratch.with([&](std::byte* buffer) {
          auto* planes = reinterpret_cast<float*>(buffer);
          auto* combined = reinterpret_cast<float*>(buffer + p.planes_bytes());
          for (int64_t i = first; i < last; ++i) {
            split_channel(p.layout, p.shape.dtype, c.input(0).as<const T>() + i * elements, padding, planes);
            if constexpr (kMax)
              tile.greatest(planes, p.taps, p.layout.span(), combined);
            else
              tile.sum(planes, p.taps, p.ones.data(), p.layout.span(), combined);
            write_rows(p, combined, c.output().as<T>() + i * positions);
          }
        });
      });
  });
}

template <bool kMax>
constexpr KernelImpl kPlanes = {.name = "planes",
                                .run = run_planes<kMax>,
                                .can_run = planes_decline,
                                .scratch_bytes = planes_scratch,
                                .prepare = prepare_planes<kMax>};

const OpKernel kKernels[] = {
    {"max_pool", neighbor_max_pool()},
    {"max_pool", kPlanes<true>},
    {"max_pool", {.name = "plain", .run = run_plain_max, .prepare = prepare_pool}},
    {"max_pool_grad",
     {.name = "planes", .run = run_max_gradient, .scratch_bytes = gradient_scratch, .prepare = prepare_pool}},
    {"average_pool", neighbor_average_pool()},
    {"average_pool", kPlanes<false>},
    {"average_pool", {.name = "plain", .run = run_plain_average, .prepare = prepare_pool}},
    {"average_pool_grad",
     {.name = "planes",
      .run = run_average_gradient,
      .scratch_bytes = gradient_scratch,
      .prepare = prepare_pool}},
};

}  // namespace

std::span<const OpKernel> pooling_kernels() { return kKernels; }

}  // namespace genesis::cpu
