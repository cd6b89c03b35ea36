#include "backends/cpu/row_reduction.h"

#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/row_reduction.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/highway_targets.h"

#include "backends/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

using namespace simd;

constexpr int64_t kSumBlock = 4096;  // partial sums of blocks are added in double

// Four accumulators; join(a, b) must be associative up to rounding, `start` its neutral element.
template <class Join>
HWY_INLINE VFloat accumulate(const float* x, int64_t n, float start, Join join) {
  constexpr int64_t N = static_cast<int64_t>(lanes());
  VFloat a(start), b(start), c(start), d(start);
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    a = join(a, load(x + i));
    b = join(b, load(x + i + N));
    c = join(c, load(x + i + 2 * N));
    d = join(d, load(x + i + 3 * N));
  }
  for (; i + N <= n; i += N) a = join(a, load(x + i));
  if (i < n) {
    const auto inside = hn::FirstN(kFloat, static_cast<size_t>(n - i));
    const VFloat rest = load_some(x + i, static_cast<size_t>(n - i));
    b = join(b, VFloat(hn::IfThenElse(inside, rest.v, VFloat(start).v)));
  }
  return join(join(a, b), join(c, d));
}

template <class Join>
HWY_INLINE float join_lanes(VFloat v, Join join) {
  alignas(64) float x[lanes()];
  store(v, x);
  for (size_t width = lanes() / 2; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) x[i] = join(x[i], x[i + width]);
  return x[0];
}

void sum_f32(const void* row, int64_t n, void* result) {
  const float* x = static_cast<const float*>(row);
  double total = 0;
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const VFloat part = accumulate(x + i, std::min(kSumBlock, n - i), 0.0f,
                                   [](VFloat a, VFloat b) HWY_ATTR { return a + b; });
    total += join_lanes(part, [](float a, float b) { return a + b; });
  }
  *static_cast<float*>(result) = static_cast<float>(total);
}

void mean_f32(const void* row, int64_t n, void* result) {
  sum_f32(row, n, result);
  *static_cast<float*>(result) /= static_cast<float>(n);
}

// Greater: max, else min.
template <bool kGreater>
void extreme_f32(const void* row, int64_t n, void* result) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const VFloat v = accumulate(static_cast<const float*>(row), n, kGreater ? -kInfinity : kInfinity,
                              [](VFloat a, VFloat b) HWY_ATTR {
                                const VMask better = kGreater ? a > b : a < b;
                                return select(better, a, select(a != a, a, b));
                              });
  *static_cast<float*>(result) =
      join_lanes(v, [](float a, float b) { return (kGreater ? a > b : a < b) || a != a ? a : b; });
}

RowReduction find_f32(std::string_view op) {
  if (op == "sum") return sum_f32;
  if (op == "mean") return mean_f32;
  if (op == "max") return extreme_f32<true>;
  return op == "min" ? extreme_f32<false> : nullptr;
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {
namespace {

HWY_EXPORT(find_f32);

// Four partial sums, so that additions overlap.
template <class T>
T sum_of(const T* x, int64_t n) {
  using Wide = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;  // integers wrap
  Wide part[4] = {};
  for (int64_t i = 0; i < n; ++i) part[i % 4] += static_cast<Wide>(x[i]);
  return static_cast<T>((part[0] + part[1]) + (part[2] + part[3]));
}

template <class T>
void sum(const void* row, int64_t n, void* result) {
  *static_cast<T*>(result) = sum_of(static_cast<const T*>(row), n);
}

void mean_f64(const void* row, int64_t n, void* result) {
  *static_cast<double*>(result) = sum_of(static_cast<const double*>(row), n) / static_cast<double>(n);
}

template <class T, bool kGreater>
void extreme(const void* row, int64_t n, void* result) {
  const T* x = static_cast<const T*>(row);
  T best = x[0];
  for (int64_t i = 1; i < n; ++i) {
    const bool better = kGreater ? x[i] > best : x[i] < best;
    if (better || x[i] != x[i]) best = x[i];
    if (best != best) break;
  }
  *static_cast<T*>(result) = best;
}

template <class T>
RowReduction find(std::string_view op) {
  if (op == "sum" && !std::is_same_v<T, bool>) return sum<T>;
  if (op == "mean" && std::is_same_v<T, double>) return mean_f64;
  if (op == "max") return extreme<T, true>;
  return op == "min" ? extreme<T, false> : nullptr;
}

}  // namespace

RowReduction find_row_reduction(std::string_view op, Lane lane) {
  switch (lane) {
    case Lane::kF32:
      return HWY_DYNAMIC_DISPATCH(find_f32)(op);
    case Lane::kF64:
      return find<double>(op);
    case Lane::kI64:
      return find<int64_t>(op);
    case Lane::kBool:
      break;
  }
  return find<bool>(op);
}

}  // namespace genesis::cpu
#endif
