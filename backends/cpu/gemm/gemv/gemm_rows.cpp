// The inner loops of products with few rows. They are bound by memory for one row and by multiply-adds for many: a group of rows
// of x meets a group of rows of the weights in registers.
#include "backends/cpu/gemm/gemv/gemm_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemv/gemm_rows.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

constexpr int kAccumulators = HWY_TARGET <= HWY_AVX3 ? 24 : 12;

// Rows of the weights per group, such that all sums stay in registers.
template <int m>
constexpr int kWeightRows = std::clamp(kAccumulators / m, 1, 6);

// Multiplies m rows of x by one row of the weights from each of `rows` streams.
template <class T, int m, int rows>
HWY_INLINE void dot_group(const GemvCall& r, const float* x, const T* w, float* sums) {
  const int64_t stride = r.apart * r.stride_w;
  Vec sum[m][rows];
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < rows; ++j) sum[i][j] = hn::Zero(kF32);
  }
  const auto step = [&](const float* x_at, auto&& w_at) HWY_ATTR {
    Vec weight[rows];
#pragma GCC unroll 6
    for (int j = 0; j < rows; ++j) weight[j] = load(w_at(j));
#pragma GCC unroll 8
    for (int i = 0; i < m; ++i) {
      const Vec value = load(x_at + i * kLanes);
#pragma GCC unroll 6
      for (int j = 0; j < rows; ++j) sum[i][j] = hn::MulAdd(value, weight[j], sum[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes <= r.k; p += kLanes) step(x + p * m, [&](int j) { return w + j * stride + p; });
  if (p < r.k) {
    T last[rows][kLanes] = {};
    for (int j = 0; j < rows; ++j)
      std::memcpy(last[j], w + j * stride + p, static_cast<size_t>(r.k - p) * sizeof(T));
    step(x + p * m, [&](int j) { return last[j]; });
  }
#pragma GCC unroll 8  // without it the sums would live in memory
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < rows; ++j)
      sums[i * r.stride_sums + j * r.n] = hn::GetLane(hn::SumOfLanes(kF32, sum[i][j]));
  }
}

template <class T, int m>
void dot_block(const GemvCall& r, const float* x, float* sums) {
  constexpr int rows = kWeightRows<m>;
  const T* w = static_cast<const T*>(r.weights);
  int64_t s = 0;
  for (; s + rows <= r.streams; s += rows)
    for (int64_t j = 0; j < r.n; ++j)
      dot_group<T, m, rows>(r, x, w + (s * r.apart + j) * r.stride_w, sums + s * r.n + j);
  for (; s < r.streams; ++s)
    for (int64_t j = 0; j < r.n; ++j)
      dot_group<T, m, 1>(r, x, w + (s * r.apart + j) * r.stride_w, sums + s * r.n + j);
}

// Adds the products of a few rows of the weights to m rows of sums, which stay in L1.
template <class T, int m, int rows>
HWY_INLINE void add_group(const GemvCall& r, const float* x, const T* w, float* sums) {
  Vec value[m][rows];
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 6
    for (int p = 0; p < rows; ++p) value[i][p] = hn::Set(kF32, x[p * m + i]);
  }
  const auto step = [&](auto&& w_at, float* to, int64_t stride) HWY_ATTR {
    Vec weight[rows];
#pragma GCC unroll 6
    for (int p = 0; p < rows; ++p) weight[p] = load(w_at(p));
#pragma GCC unroll 8
    for (int i = 0; i < m; ++i) {
      Vec sum = load(to + i * stride);
#pragma GCC unroll 6
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
void add_block(const GemvCall& r, const float* x, float* sums) {
  constexpr int rows = m == 1 ? 6 : 4;
  const T* w = static_cast<const T*>(r.weights);
  for (int i = 0; i < m; ++i) std::fill_n(sums + i * r.stride_sums, r.n, 0.0f);
  int64_t p = 0;
  for (; p + rows <= r.k; p += rows) add_group<T, m, rows>(r, x + p * m, w + p * r.stride_w, sums);
  for (; p < r.k; ++p) add_group<T, m, 1>(r, x + p * m, w + p * r.stride_w, sums);
}

// Calls f.operator()<m>(i) for the groups of rows [i, i + m) of padded_rows().
template <class F>
void each_group(int64_t rows, const F& f) {
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8) f.template operator()<8>(i);
  switch (padded_rows(rows) - i) {
    case 8:
      return f.template operator()<8>(i);
    case 4:
      return f.template operator()<4>(i);
    case 2:
      return f.template operator()<2>(i);
    case 1:
      return f.template operator()<1>(i);
  }
}

// The weights of one call stay in L2 from group to group.
template <class T>
void dot_rows(const GemvCall& r) {
  each_group(r.m,
             [&]<int m>(int64_t i) { dot_block<T, m>(r, r.x + i * r.stride_x, r.sums + i * r.stride_sums); });
}
template <class T>
void add_rows(const GemvCall& r) {
  each_group(r.m, [&]<int m>(int64_t i) {
    add_block<T, m>(r, r.x + i * r.stride_x + r.first_k * m, r.sums + i * r.stride_sums);
  });
}

// Packs groups of m rows into blocks of `lanes` steps: [block][row][step of the block], with zeros after the last step.
template <class T, int lanes>
void pack_rows(const RowsOfA& a, float* x) {
  const T* data = static_cast<const T*>(a.data);
  const int64_t packed_k = (a.k + lanes - 1) / lanes * lanes;
  each_group(a.m, [&]<int m>(int64_t first) {
    float* to = x + first * packed_k;
    for (int64_t block = 0; block < packed_k; block += lanes) {
      for (int i = 0; i < m; ++i, to += lanes) {
        const T* from = data + (first + i) * a.row + block * a.step;
        const int64_t valid = first + i < a.m ? std::min<int64_t>(lanes, a.k - block) : 0;
        if (lanes == kLanes && a.step == 1 && valid == lanes)
          store(load(from), to);
        else
          for (int64_t p = 0; p < lanes; ++p) to[p] = p < valid ? static_cast<float>(from[p * a.step]) : 0.0f;
      }
    }
  });
}

int64_t packed_row_dot(int64_t k) { return (k + kLanes - 1) / kLanes * kLanes; }
int64_t packed_row_add(int64_t k) { return k; }

GemvKernel dot_rows_for(DType a, DType weights) {
  return {dispatch_rows(weights, []<class T>(TypeTag<T>) { return dot_rows<T>; }),
          dispatch_rows(a, []<class T>(TypeTag<T>) { return pack_rows<T, kLanes>; }), packed_row_dot};
}
GemvKernel add_rows_for(DType a, DType weights) {
  return {dispatch_rows(weights, []<class T>(TypeTag<T>) { return add_rows<T>; }),
          dispatch_rows(a, []<class T>(TypeTag<T>) { return pack_rows<T, 1>; }), packed_row_add};
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(dot_rows_for);
HWY_EXPORT(add_rows_for);

GemvKernel dot_rows_kernel(DType a, DType weights) { return HWY_DYNAMIC_DISPATCH(dot_rows_for)(a, weights); }
GemvKernel add_rows_kernel(DType a, DType weights) { return HWY_DYNAMIC_DISPATCH(add_rows_for)(a, weights); }

}  // namespace genesis::cpu
#endif
