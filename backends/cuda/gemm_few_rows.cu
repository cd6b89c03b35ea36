// A few rows of x against a weight [n, k]: what decoding does. The weight is read once and by far the most
// bytes, so each warp keeps several 16-byte loads of it in flight, while x comes out of the cache. How k is
// split among warps depends on the shape alone, and partial sums are added in one order.
#include "backends/cuda/activate.h"
#include "backends/cuda/gemm_plain.h"
#include "backends/cuda/number.h"
#include "backends/cuda/packs.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8, kLanes = 32;
constexpr int64_t kManyWarps = 4096;  // enough to fill a large chip twice

struct Rows {
  int64_t m, n, k, lda, ldc;
  int splits;  // warps that share a group of weight rows
  Activation activation;
};

template <class T>
constexpr int kPack = 16 / sizeof(T);

// Weights pass by once: they need no place in the first cache.
template <class T>
__device__ __forceinline__ Pack<T, kPack<T>> load_once(const T* at) {
  const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(at));
  return reinterpret_cast<const Pack<T, kPack<T>>&>(bits);
}

// Each warp: R rows of the weight times M rows of x, over its share of k.
template <class T, int M, int R>
__device__ void partial_products(const Rows& rows, const T* x, const T* weight, int64_t first, int part,
                                 float (&sums)[M][R]) {
  constexpr int N = kPack<T>;
  const int64_t packs = rows.k / N, step = static_cast<int64_t>(kLanes) * rows.splits;
#pragma unroll 2
  for (int64_t p = part * kLanes + threadIdx.x % kLanes; p < packs; p += step) {
    Pack<T, N> w[R];
#pragma unroll
    for (int r = 0; r < R; ++r) w[r] = load_once(weight + min(first + r, rows.n - 1) * rows.k + p * N);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const Pack<T, N> v =
          *reinterpret_cast<const Pack<T, N>*>(x + min(int64_t{m}, rows.m - 1) * rows.lda + p * N);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float xi = widen(v.at[i]);
#pragma unroll
        for (int r = 0; r < R; ++r) sums[m][r] = fmaf(xi, widen(w[r].at[i]), sums[m][r]);
      }
    }
  }
}

template <class T, int M, int R>
__global__ void __launch_bounds__(kWarps* kLanes)
    few_rows(Rows rows, const T* x, const T* weight, const T* bias, T* y) {
  __shared__ float shares[kWarps][M * R];
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int groups = kWarps / rows.splits, group = warp / rows.splits;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * groups + group) * R;
  float sums[M][R] = {};
  if (first < rows.n) partial_products<T, M, R>(rows, x, weight, first, warp % rows.splits, sums);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int far = kLanes / 2; far > 0; far /= 2)
        sums[m][r] += __shfl_xor_sync(0xffffffffu, sums[m][r], far);
      if (lane == 0) shares[warp][m * R + r] = sums[m][r];
    }
  __syncthreads();
  for (int i = threadIdx.x; i < groups * M * R; i += kWarps * kLanes) {
    const int m = i % (M * R) / R, g = i / (M * R);
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * groups + g) * R + i % R;
    if (m >= rows.m || row >= rows.n) continue;
    float sum = 0;
    for (int s = 0; s < rows.splits; ++s) sum += shares[g * rows.splits + s][i % (M * R)];
    if (bias) sum += widen(bias[row]);
    y[m * rows.ldc + row] = narrow<T>(activate(sum, rows.activation));
  }
}

template <class T, int M, int R>
void start_few_rows(const GemmProblem& p, const GemmData& d) {
  const int64_t groups = (p.n + R - 1) / R, packs = p.k / kPack<T>;
  int splits = 1;
  while (splits < kWarps && groups * splits < kManyWarps && packs >= 2 * kLanes * splits * 2) splits *= 2;
  const Rows rows{p.m, p.n, p.k, p.lda, p.ldc, splits, p.activation};
  const int64_t per_block = kWarps / splits, blocks = (groups + per_block - 1) / per_block;
  few_rows<T, M, R><<<static_cast<unsigned>(blocks), kWarps * kLanes, 0, d.stream>>>(
      rows, static_cast<const T*>(d.a), static_cast<const T*>(d.b),
      p.has_bias ? static_cast<const T*>(d.bias) : nullptr, static_cast<T*>(d.c));
}

// More weight rows per warp reuse x, when there are enough of them to fill the chip.
template <class T, int M>
void start_rows(const GemmProblem& p, const GemmData& d) {
  if (M <= 4 && p.n >= 4 * kManyWarps) return start_few_rows < T, M, M <= 4 ? 4 : 2 > (p, d);
  if (p.n >= 2 * kManyWarps) return start_few_rows<T, M, 2>(p, d);
  start_few_rows<T, M, 1>(p, d);
}

template <class T>
void start_for(const GemmProblem& p, const GemmData& d) {
  if (p.m <= 1) return start_rows<T, 1>(p, d);
  if (p.m <= 2) return start_rows<T, 2>(p, d);
  if (p.m <= 4) return start_rows<T, 4>(p, d);
  start_rows<T, 8>(p, d);
}

}  // namespace

bool few_rows_takes(const GemmProblem& p) {
  if (p.in != p.out || p.batch != 1 || p.m < 1 || p.m > kFewRows || p.n < 1 || p.k < 1) return false;
  if (p.transpose_a || !p.transpose_b || p.accumulate || p.ldb != p.k) return false;
  if (p.in != DType::bf16 && p.in != DType::f16 && p.in != DType::f32) return false;
  const int64_t pack = 16 / static_cast<int64_t>(size_of(p.in));
  return p.k % pack == 0 && p.lda % pack == 0;
}

void run_few_rows(const GemmProblem& p, const GemmData& d) {
  if (p.in == DType::bf16) return start_for<__nv_bfloat16>(p, d);
  if (p.in == DType::f16) return start_for<__half>(p, d);
  start_for<float>(p, d);
}

}  // namespace genesis::cuda
