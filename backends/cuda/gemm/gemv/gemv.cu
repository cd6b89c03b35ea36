// A few rows of x against weights [n, k], as in decoding. The weights are by far the most bytes and are read once, so
// each warp keeps several 16-byte loads of them in flight, while x comes from the cache. How k is split among warps
// depends on k alone, and partial sums are added in a fixed order.
#include "backends/cuda/gemm/gemv/gemv.h"

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/gemm/gemm_plain.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8, kMaxSplits = 4, kMaxLayers = Gemv::kMaxLayers;
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
__device__ void partial_products(const Gemv& gemv, const T* x, const T* (&weights)[R], int part,
                                 float (&sums)[M][R]) {
  constexpr int N = kPack<T>, kAhead = R >= 4 ? 1 : 4 / R;
  constexpr bool kAheadOfX = M * kAhead <= 8;
  const int packs = static_cast<int>(gemv.k / N), step = kLanes * gemv.splits;
  const auto x_at = [&](int m, int p) {
    return *reinterpret_cast<const Pack<T, N>*>(x + min(int64_t{m}, gemv.m - 1) * gemv.lda + int64_t{p} * N);
  };
  for (int p0 = part * kLanes + static_cast<int>(threadIdx.x) % kLanes; p0 < packs; p0 += kAhead * step) {
    Pack<T, N> w[kAhead][R], v[kAheadOfX ? kAhead : 1][M];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int p = p0 + u * step; p < packs) {
#pragma unroll
        for (int r = 0; r < R; ++r) w[u][r] = load_once(weights[r] + int64_t{p} * N);
        if constexpr (kAheadOfX)
#pragma unroll
          for (int m = 0; m < M; ++m) v[u][m] = x_at(m, p);
      }
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int p = p0 + u * step; p < packs) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
          if constexpr (!kAheadOfX) v[0][m] = x_at(m, p);
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

// Adds the warps' partial sums of one result and its bias.
template <class T>
__device__ float finished(const float (&shares)[kWarps][kMaxLayers * 4], int first, int splits, int at,
                          const void* bias, int64_t row) {
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += shares[first + s][at];
  if (bias) sum += widen(static_cast<const T*>(bias)[row]);
  return sum;
}

// A group of warps has R rows of weights. kSwiglu: they alternate between gate and up.
template <class T, int M, int R, bool kSwiglu>
__global__ void __launch_bounds__(kWarps* kLanes) gemv_kernel(Gemv gemv, const T* x) {
  static_assert(M * R <= kMaxLayers * 4);
  constexpr int kResults = kSwiglu ? R / 2 : R;
  __shared__ float shares[kWarps][kMaxLayers * 4];
  const int at = gemv.layer_of<kSwiglu>(blockIdx.x);
  const Gemv::Layer &layer = gemv.layer[at], &up = gemv.layer[kSwiglu ? 1 : at];
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int groups = kWarps / gemv.splits, group = warp / gemv.splits;
  const int64_t first_of_block = (static_cast<int64_t>(blockIdx.x) - layer.first_block) * groups * kResults;
  float sums[M][R] = {};
  if (const int64_t first = first_of_block + group * kResults; first < layer.n) {
    const T* weights[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t row = min(first + (kSwiglu ? r / 2 : r), layer.n - 1);
      weights[r] = static_cast<const T*>(kSwiglu && r % 2 ? up.weight : layer.weight) + row * gemv.k;
    }
    partial_products<T, M, R>(gemv, x, weights, warp % gemv.splits, sums);
  }
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = warp_sum(sums[m][r]);
      if (lane == 0) shares[warp][m * R + r] = share;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < groups * M * kResults; i += kWarps * kLanes) {
    const int m = i / kResults % M, g = i / (M * kResults), r = i % kResults;
    const int64_t row = first_of_block + g * kResults + r;
    if (m >= gemv.m || row >= layer.n) continue;
    const int from = g * gemv.splits;
    const int64_t at_y = m * layer.ldc + row;
    if constexpr (kSwiglu) {
      const float a = finished<T>(shares, from, gemv.splits, m * R + 2 * r, layer.bias, row);
      const float b = finished<T>(shares, from, gemv.splits, m * R + 2 * r + 1, up.bias, row);
      static_cast<T*>(layer.y)[at_y] = narrow<T>(gated<T>(widen(narrow<T>(a)), widen(narrow<T>(b))));
    } else {
      float a = activate(finished<T>(shares, from, gemv.splits, m * R + r, layer.bias, row), gemv.activation);
      if (layer.addend) a += addend_at<T>(layer.addend, at_y, gemv.wide);
      put_result<T>(layer.y, at_y, gemv.wide, a);
    }
  }
}

template <class T, int M, int R, bool kSwiglu>
void start_kernel(Gemv gemv, const void* x, cudaStream_t stream) {
  const int64_t blocks = gemv.number_blocks(kWarps / gemv.splits * (kSwiglu ? R / 2 : R), kSwiglu);
  if (blocks == 0) return;
  gemv_kernel<T, M, R, kSwiglu>
      <<<static_cast<unsigned>(blocks), kWarps * kLanes, 0, stream>>>(gemv, static_cast<const T*>(x));
}

// More weight rows per warp reuse x, if there are enough rows to fill the chip.
template <class T, int M, bool kSwiglu>
void start_rows(const Gemv& gemv, const void* x, cudaStream_t stream) {
  int64_t n = 0;
  for (int i = 0; i < gemv.layers; ++i) n += gemv.layer[i].n;
  if constexpr (M <= 4)
    if (n >= 4 * kManyWarps) return start_kernel<T, M, 4, kSwiglu>(gemv, x, stream);
  if (kSwiglu || n >= 2 * kManyWarps) return start_kernel<T, M, 2, kSwiglu>(gemv, x, stream);
  if constexpr (!kSwiglu) start_kernel<T, M, 1, false>(gemv, x, stream);
}

template <class T, bool kSwiglu>
void start_type(const Gemv& gemv, const void* x, cudaStream_t stream) {
  if (gemv.m <= 1) return start_rows<T, 1, kSwiglu>(gemv, x, stream);
  if (gemv.m <= 2) return start_rows<T, 2, kSwiglu>(gemv, x, stream);
  if constexpr (max_gemv_rows(sizeof(T)) > 4)
    if (gemv.m > 4) return start_rows<T, 8, kSwiglu>(gemv, x, stream);
  start_rows<T, 4, kSwiglu>(gemv, x, stream);
}

// A product with a few rows of x. Falls back to the plain kernel if the buffers are not aligned.
class GemvGemm final : public Gemm {
 public:
  GemvGemm(const GemmProblem& problem, StartGemv start) : problem_(problem), start_(start) {}

  void run(const GemmData& d) const override {
    if (!starts_at(16, d)) return run_plain_gemm(problem_, d);
    const GemmProblem& p = problem_;
    Gemv gemv{
        .m = p.m, .k = p.k, .lda = p.lda, .splits = gemv_splits(p.in, p.k), .independent = d.independent};
    gemv.activation = p.activation;
    gemv.wide = p.in != p.out;
    gemv.layer[0] = {d.b, p.has_bias ? d.bias : nullptr, addend_of(p, d), d.c, p.n, p.ldc, 0};
    const GemvStart start{d.stream, d.can_use_pdl, d.early};
    if (!start_(p.in, false, gemv, d.a, start)) start_gemv(p.in, false, gemv, d.a, start);
  }

 private:
  GemmProblem problem_;
  StartGemv start_;
};

}  // namespace

int gemv_splits(DType dtype, int64_t k) {
  const int64_t packs = k * static_cast<int64_t>(size_of(dtype)) / 16;
  int splits = 1;
  while (splits < kMaxSplits && packs >= 4 * kLanes * splits) splits *= 2;
  return splits;
}

bool start_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start) {
  if (gemv.norm) return false;
  const auto start_either = [&](auto tag) {
    using T = decltype(tag);
    swiglu ? start_type<T, true>(gemv, x, start.stream) : start_type<T, false>(gemv, x, start.stream);
  };
  if (dtype == DType::bf16)
    start_either(__nv_bfloat16{});
  else if (dtype == DType::f16)
    start_either(__half{});
  else
    start_either(float{});
  return true;
}

std::string gemv_declines(const GemmProblem& p) {
  if (p.batch != 1) return "a batch of products";
  if (p.m < 1 || p.n < 1 || p.k < 1) return "nothing to compute";
  if (p.transpose_a || !p.transpose_b || p.ldb != p.k) return "B is not stored as weights [n, k]";
  if (p.in != DType::bf16 && p.in != DType::f16 && p.in != DType::f32)
    return "the operands are " + std::string(name_of(p.in));
  if (p.out != p.in && p.out != DType::f32) return "the result is " + std::string(name_of(p.out));
  if (const int64_t most = max_gemv_rows(size_of(p.in)); p.m > most)
    return "more than " + std::to_string(most) + " rows";
  const int64_t pack = 16 / static_cast<int64_t>(size_of(p.in));
  if (p.k % pack != 0 || p.lda % pack != 0) return "rows that are no multiple of 16 bytes";
  return p.k < int64_t{1} << 30 ? "" : "it counts in 32 bits";
}

std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem) {
  return create_gemv_with(problem, start_gemv);
}

std::shared_ptr<const Gemm> create_gemv_with(const GemmProblem& problem, StartGemv start) {
  return std::make_shared<GemvGemm>(problem, start);
}

}  // namespace genesis::cuda
