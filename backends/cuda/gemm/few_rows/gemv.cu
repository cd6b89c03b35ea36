// A few rows of x against weights [n, k], as in decoding. The weights are by far the most bytes and are read once, so
// each warp keeps several 16-byte loads of them in flight, while x comes from the cache. How k is split among warps
// depends on k alone, and partial sums are added in a fixed order.
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm/few_rows/row_result.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8, kMaxSplits = 4;
constexpr int kMaxSums = 32;          // sums per warp
constexpr int64_t kManyWarps = 4096;  // enough to fill a large chip twice

template <class T>
constexpr int kPack = 16 / sizeof(T);

// Loads weights, which are read only once, without keeping them in the L1 cache.
template <class T>
__device__ __forceinline__ Pack<T, kPack<T>> load_once(const T* at) {
  const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(at));
  return reinterpret_cast<const Pack<T, kPack<T>>&>(bits);
}

// Each warp multiplies R rows of weights with M rows of x over its share of k. It loads several packs of every weight
// row before it uses the first; of x too, if there are registers for them.
template <class T, int M, int R>
__device__ void partial_products(const RowProducts& p, int splits, const T* (&weights)[R], int part,
                                 float (&sums)[M][R]) {
  constexpr int N = kPack<T>, kAhead = R >= 4 ? 1 : 4 / R;
  constexpr bool kAheadOfX = M * kAhead <= 8;
  const int packs = static_cast<int>(p.k / N), step = kLanes * splits;
  const auto* x = static_cast<const T*>(p.x);
  const auto x_at = [&](int m, int i) {
    return *reinterpret_cast<const Pack<T, N>*>(x + min(int64_t{m}, p.m - 1) * p.lda + int64_t{i} * N);
  };
  for (int first = part * kLanes + static_cast<int>(threadIdx.x) % kLanes; first < packs;
       first += kAhead * step) {
    Pack<T, N> w[kAhead][R], v[kAheadOfX ? kAhead : 1][M];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int at = first + u * step; at < packs) {
#pragma unroll
        for (int r = 0; r < R; ++r) w[u][r] = load_once(weights[r] + int64_t{at} * N);
        if constexpr (kAheadOfX)
#pragma unroll
          for (int m = 0; m < M; ++m) v[u][m] = x_at(m, at);
      }
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int at = first + u * step; at < packs) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
          if constexpr (!kAheadOfX) v[0][m] = x_at(m, at);
          const Pack<T, N>& row = v[kAheadOfX ? u : 0][m];
#pragma unroll
          for (int i = 0; i < N; ++i) {
            const float xi = widen(row.at[i]);
#pragma unroll
            for (int r = 0; r < R; ++r) sums[m][r] = fmaf(xi, widen(w[u][r].at[i]), sums[m][r]);
          }
        }
      }
  }
}

// Adds the warps' partial sums of one result.
__device__ float sum_of_parts(const float (&shares)[kWarps][kMaxSums], int first, int splits, int at) {
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += shares[first + s][at];
  return sum;
}

// A group of warps has R rows of weights. kSwiglu: they alternate between gate and up.
template <class T, int M, int R, bool kSwiglu>
__global__ void __launch_bounds__(kWarps* kLanes)
    gemv_kernel(const __grid_constant__ RowProducts p, const __grid_constant__ RowSplit split) {
  static_assert(M * R <= kMaxSums);
  constexpr int kResults = kSwiglu ? R / 2 : R;
  __shared__ float shares[kWarps][kMaxSums];
  const int at = split.layer_of(p, kSwiglu, blockIdx.x);
  const RowProducts::Layer &layer = p.layer[at], &up = p.layer[kSwiglu ? 1 : at];
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int groups = kWarps / split.splits, group = warp / split.splits;
  const int64_t first_of_block = (static_cast<int64_t>(blockIdx.x) - split.first[at]) * groups * kResults;
  float sums[M][R] = {};
  if (const int64_t first = first_of_block + group * kResults; first < layer.n) {
    const T* weights[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t row = min(first + (kSwiglu ? r / 2 : r), layer.n - 1);
      weights[r] = static_cast<const T*>(kSwiglu && r % 2 ? up.weight : layer.weight) + row * p.k;
    }
    partial_products<T, M, R>(p, split.splits, weights, warp % split.splits, sums);
  }
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = warp_sum(sums[m][r]);
      if (lane == 0) shares[warp][m * R + r] = share;
    }
  __syncthreads();
#pragma unroll 1  // a thread has one result, or none
  for (int i = threadIdx.x; i < groups * M * kResults; i += kWarps * kLanes) {
    const int m = i / kResults % M, g = i / (M * kResults), r = i % kResults;
    const int64_t row = first_of_block + g * kResults + r;
    if (m >= p.m || row >= layer.n) continue;
    const auto sum = [&](int of) { return sum_of_parts(shares, g * split.splits, split.splits, m * R + of); };
    const float own = sum(kSwiglu ? 2 * r : r), above = kSwiglu ? sum(2 * r + 1) : 0.0f;
    RowResult<T> result;
    result.read(p, layer, kSwiglu, m, row);
    result.finish(p, layer, kSwiglu, own, above);
  }
}

template <class T, int M, int R, bool kSwiglu>
void start_kernel(const RowProducts& p, cudaStream_t stream) {
  const int splits = gemv_splits(p.dtype, p.k);
  RowSplit split(p, kWarps / splits * (kSwiglu ? R / 2 : R));
  split.splits = splits;
  if (split.blocks > 0)
    gemv_kernel<T, M, R, kSwiglu>
        <<<static_cast<unsigned>(split.blocks), kWarps * kLanes, 0, stream>>>(p, split);
}

// More weight rows per warp reuse x, if there are enough rows to fill the chip.
template <class T, int M, bool kSwiglu>
void start_rows(const RowProducts& p, cudaStream_t stream) {
  const int64_t n = p.rows_of_weights();
  if constexpr (M <= 4)
    if (n >= 4 * kManyWarps) return start_kernel<T, M, 4, kSwiglu>(p, stream);
  if (kSwiglu || n >= 2 * kManyWarps) return start_kernel<T, M, 2, kSwiglu>(p, stream);
  if constexpr (!kSwiglu) start_kernel<T, M, 1, false>(p, stream);
}

template <class T, bool kSwiglu>
void start_either(const RowProducts& p, cudaStream_t stream) {
  if (p.m <= 1) return start_rows<T, 1, kSwiglu>(p, stream);
  if (p.m <= 2) return start_rows<T, 2, kSwiglu>(p, stream);
  if constexpr (max_gemv_rows(sizeof(T)) > 4)
    if (p.m > 4) return start_rows<T, 8, kSwiglu>(p, stream);
  start_rows<T, 4, kSwiglu>(p, stream);
}

template <class T>
void start_type(const RowProducts& p, cudaStream_t stream) {
  p.swiglu ? start_either<T, true>(p, stream) : start_either<T, false>(p, stream);
}

}  // namespace

int gemv_splits(DType dtype, int64_t k) {
  const int64_t packs = k * static_cast<int64_t>(size_of(dtype)) / 16;
  int splits = 1;
  while (splits < kMaxSplits && packs >= 4 * kLanes * splits) splits *= 2;
  return splits;
}

std::string why_no_gemv_rows(const RowProducts& p) {
  if (const int64_t most = max_gemv_rows(size_of(p.dtype)); p.m > most)
    return "more than " + std::to_string(most) + " rows";
  const int64_t pack = 16 / static_cast<int64_t>(size_of(p.dtype));
  if (p.k % pack != 0 || p.lda % pack != 0) return "rows that are no multiple of 16 bytes";
  return p.k < int64_t{1} << 30 ? "" : "it counts in 32 bits";
}

std::string why_no_gemv(const RowProducts& p) {
  return p.has_norm ? "a norm, which the kernel has no part of" : why_no_gemv_rows(p);
}

bool start_gemv(const RowProducts& p, const Launch& launch) {
  if (p.has_norm) return false;
  if (p.dtype == DType::bf16)
    start_type<__nv_bfloat16>(p, launch.stream);
  else if (p.dtype == DType::f16)
    start_type<__half>(p, launch.stream);
  else
    start_type<float>(p, launch.stream);
  return true;
}

}  // namespace genesis::cuda
