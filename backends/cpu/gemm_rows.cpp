// Inner loops of products with few rows. Bound by memory for one row, by multiply-adds for many: a group of
// rows of x meets a group of rows of the weights in registers. Used by gemm_small.cpp.
#include "backends/cpu/gemm_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm_rows.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

constexpr int kAccumulators = HWY_TARGET <= HWY_AVX3 ? 24 : 12;

// Rows of the weights at a time, so that all sums stay in registers.
template <int m>
constexpr int kWeightRows = std::clamp(kAccumulators / m, 1, 4);

// The last elements of a row, followed by zeros.
template <class T>
struct Tail {
  T data[kLanes] = {};
  Tail(const T* row, int64_t n) { std::memcpy(data, row, static_cast<size_t>(n) * sizeof(T)); }
};

// `rows` rows of weights against m rows of x.
template <class T, int m, int rows>
HWY_INLINE void dot_group(const FewRows& r, const float* x, const T* w, float* sums) {
  Vec sum[m][rows];
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) sum[i][j] = hn::Zero(kF32);
  }
  const auto step = [&](auto&& x_at, auto&& w_at) HWY_ATTR {
    Vec weight[rows];
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) weight[j] = load(w_at(j));
#pragma GCC unroll 8
    for (int i = 0; i < m; ++i) {
      const Vec value = load(x_at(i));
#pragma GCC unroll 4
      for (int j = 0; j < rows; ++j) sum[i][j] = hn::MulAdd(value, weight[j], sum[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes <= r.k; p += kLanes) {
    step([&](int i) { return x + i * r.stride_x + p; }, [&](int j) { return w + j * r.stride_w + p; });
  }
  if (const int64_t rest = r.k - p; rest > 0) {
    for (int j = 0; j < rows; ++j) {
      const Tail<T> weight(w + j * r.stride_w + p, rest);
      for (int i = 0; i < m; ++i) {
        const Tail<float> value(x + i * r.stride_x + p, rest);
        sum[i][j] = hn::MulAdd(load(value.data), load(weight.data), sum[i][j]);
      }
    }
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < rows; ++j) sums[i * r.stride_sums + j] = hn::GetLane(hn::SumOfLanes(kF32, sum[i][j]));
  }
}

template <class T, int m>
void dot_block(const FewRows& r, const float* x, float* sums) {
  constexpr int rows = kWeightRows<m>;
  const T* w = static_cast<const T*>(r.weights);
  int64_t j = 0;
  for (; j + rows <= r.n; j += rows) dot_group<T, m, rows>(r, x, w + j * r.stride_w, sums + j);
  for (; j < r.n; ++j) dot_group<T, m, 1>(r, x, w + j * r.stride_w, sums + j);
}

// Four rows of the weights are added to m rows of sums, which stay in L1.
template <class T, int m, int rows>
HWY_INLINE void add_group(const FewRows& r, const float* x, const T* w, float* sums) {
  Vec value[m][rows];
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int p = 0; p < rows; ++p) value[i][p] = hn::Set(kF32, x[i * r.stride_x + p]);
  }
  const auto step = [&](auto&& w_at, float* to, int64_t stride) HWY_ATTR {
    Vec weight[rows];
#pragma GCC unroll 4
    for (int p = 0; p < rows; ++p) weight[p] = load(w_at(p));
#pragma GCC unroll 8
    for (int i = 0; i < m; ++i) {
      Vec sum = load(to + i * stride);
#pragma GCC unroll 4
      for (int p = 0; p < rows; ++p) sum = hn::MulAdd(value[i][p], weight[p], sum);
      store(sum, to + i * stride);
    }
  };
  int64_t j = 0;
  for (; j + kLanes <= r.n; j += kLanes)
    step([&](int p) { return w + p * r.stride_w + j; }, sums + j, r.stride_sums);
  const int64_t rest = r.n - j;
  if (rest == 0) return;
  T tail[rows][kLanes] = {};
  float last[m][kLanes] = {};
  for (int p = 0; p < rows; ++p)
    std::memcpy(tail[p], w + p * r.stride_w + j, static_cast<size_t>(rest) * sizeof(T));
  for (int i = 0; i < m; ++i) std::copy_n(sums + i * r.stride_sums + j, rest, last[i]);
  step([&](int p) { return tail[p]; }, last[0], kLanes);
  for (int i = 0; i < m; ++i) std::copy_n(last[i], rest, sums + i * r.stride_sums + j);
}

template <class T, int m>
void add_block(const FewRows& r, const float* x, float* sums) {
  constexpr int rows = m <= 4 ? 4 : 2;
  const T* w = static_cast<const T*>(r.weights);
  for (int i = 0; i < m; ++i) std::fill_n(sums + i * r.stride_sums, r.n, 0.0f);
  int64_t p = 0;
  for (; p + rows <= r.k; p += rows) add_group<T, m, rows>(r, x + p, w + p * r.stride_w, sums);
  for (; p < r.k; ++p) add_group<T, m, 1>(r, x + p, w + p * r.stride_w, sums);
}

template <class T>
struct Dot {
  template <int m>
  static void block(const FewRows& r, const float* x, float* sums) {
    dot_block<T, m>(r, x, sums);
  }
};
template <class T>
struct Add {
  template <int m>
  static void block(const FewRows& r, const float* x, float* sums) {
    add_block<T, m>(r, x, sums);
  }
};

// Rows of x in groups of 8, 4, 2 and 1; the weights of one call stay in L2 between groups.
template <class Kernel>
void all_rows(const FewRows& r) {
  int64_t i = 0;
  const auto groups_of = [&]<int m>() {
    for (; i + m <= r.m; i += m)
      Kernel::template block<m>(r, r.x + i * r.stride_x, r.sums + i * r.stride_sums);
  };
  groups_of.template operator()<8>();
  groups_of.template operator()<4>();
  groups_of.template operator()<2>();
  groups_of.template operator()<1>();
}

template <template <class> class Kernel>
FewRowsFunction select(DType weights) {
  switch (weights) {
    case DType::f32:
      return all_rows<Kernel<float>>;
    case DType::bf16:
      return all_rows<Kernel<bf16>>;
    case DType::f16:
      return all_rows<Kernel<f16>>;
    default:
      return nullptr;
  }
}

FewRowsFunction dot_rows(DType weights) { return select<Dot>(weights); }
FewRowsFunction add_rows(DType weights) { return select<Add>(weights); }

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(dot_rows);
HWY_EXPORT(add_rows);

FewRowsFunction dot_rows_function(DType weights) { return HWY_DYNAMIC_DISPATCH(dot_rows)(weights); }
FewRowsFunction add_rows_function(DType weights) { return HWY_DYNAMIC_DISPATCH(add_rows)(weights); }

}  // namespace genesis::cpu
#endif
