// Decoding is limited by memory, not by arithmetic, and a layer is a chain of small products: the memory must never
// idle between them. A block's rows of a weight are contiguous, so one bulk copy brings each warp's share into shared
// memory; it starts while the kernels ahead still run. Then x comes from the L2 cache, and the product takes about as
// long as a kernel launch did.
//
// It is the only GEMV kernel with a norm: with g the norm's weight, y = sum(x g w) / sqrt(mean(x^2) + eps), and the
// squares are summed together with the products.
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm/few_rows/row_result.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int64_t kManyRows = 4096;        // with more rows of weights, a block has more of them
constexpr size_t kWantedBytes = 40 << 10;  // bytes wanted per block, so that several share a multiprocessor
constexpr int kMaxBytes = 112 << 10;

template <class T>
constexpr int kPack = 16 / sizeof(T);

// The rows of weights of one group of warps in shared memory: R rows of k elements; for a swiglu, first gate's, then
// up's.
template <class T, int R, bool kSwiglu>
struct GroupRows {
  static constexpr int kResults = kSwiglu ? R / 2 : R;

  int64_t first;  // row of the layer
  int count;      // existing rows of each weight; 0 or less: none
  T* weights;
  uint64_t* arrived;

  __device__ void ask(const RowProducts& p, const RowProducts::Layer& layer,
                      const RowProducts::Layer& up) const {
    if (count <= 0) return;
    const auto bytes = static_cast<uint32_t>(count * p.k * int64_t{sizeof(T)});
    expect_bytes(arrived, kSwiglu ? 2 * bytes : bytes);
    copy_to_shared(weights, static_cast<const T*>(layer.weight) + first * p.k, bytes, arrived);
    if constexpr (kSwiglu)
      copy_to_shared(weights + kResults * p.k, static_cast<const T*>(up.weight) + first * p.k, bytes,
                     arrived);
  }
};

// Adds to sums[m][r] this lane's share of row m of x times row r. With kNorm x is first multiplied by the norm's
// weight, and the lane's share of row m of x squared is added to squares[m]. x is loaded some packs ahead.
template <class T, int M, int R, bool kSwiglu, bool kNorm>
__device__ void multiply(const RowProducts& p, int splits, const GroupRows<T, R, kSwiglu>& rows, int part,
                         float (&sums)[M][R], float (&squares)[M]) {
  constexpr int N = kPack<T>, kAhead = M > 1 ? 8 / M : R >= 4 || kNorm ? 4 : 5;
  const int packs = static_cast<int>(p.k / N), step = kLanes * splits;
  const auto* x = static_cast<const T*>(p.x);
  const auto* weights = reinterpret_cast<const Words*>(rows.weights);
  for (int first = part * kLanes + static_cast<int>(threadIdx.x) % kLanes; first < packs;
       first += kAhead * step) {
    Words v[kAhead][M], gains[kNorm ? kAhead : 1];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int at = first + u * step; at < packs) {
        if constexpr (kNorm) gains[u] = static_cast<const Words*>(p.norm)[at];
#pragma unroll
        for (int m = 0; m < M; ++m)
          v[u][m] = *reinterpret_cast<const Words*>(x + min(int64_t{m}, p.m - 1) * p.lda + int64_t{at} * N);
      }
    wait_for_phase(rows.arrived, 0);
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int at = first + u * step; at < packs) {
        Words w[R];
#pragma unroll
        for (int r = 0; r < R; ++r) w[r] = weights[r * packs + at];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int i = 0; i < N; ++i) {
            float xi = element_of<T>(v[u][m], i);
            if constexpr (kNorm) {
              squares[m] = fmaf(xi, xi, squares[m]);
              xi *= element_of<T>(gains[u], i);
            }
#pragma unroll
            for (int r = 0; r < R; ++r) sums[m][r] = fmaf(xi, element_of<T>(w[r], i), sums[m][r]);
          }
      }
  }
}

// Prefetches the norm's weight into the L2 cache: other layers' weights have replaced it there since the last token.
template <class T>
__device__ void ask_for_gains(const RowProducts& p) {
  constexpr int64_t kLine = 128;
  const int64_t bytes = p.k * int64_t{sizeof(T)};
  for (int64_t at = threadIdx.x * kLine; at < bytes; at += kWarps * kLanes * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(p.norm) + at));
}

// Blocks that share a multiprocessor, including those of the next kernels: one row of x needs few registers.
constexpr int blocks_of(int m) { return m > 1 ? 3 : 8; }

// The result that a thread finishes, if any, and where its sum is.
template <class T>
struct OwnResult : RowResult<T> {
  bool there = false;
  int m = 0, group = 0, r = 0;
};

// Registers are scarce while a block multiplies. `at` is computed in threads without a result, too: with a second value for
// those, the compiler spills more of them.
template <class T, int M, int kResults, bool kSwiglu>
__device__ __forceinline__ OwnResult<T> result_of(const RowProducts& p, const RowProducts::Layer& layer,
                                                  int64_t first_of_block, int groups) {
  static_assert(kWarps * M * kResults <= kWarps * kLanes, "a thread finishes one result");
  OwnResult<T> result;
  const int i = static_cast<int>(threadIdx.x);
  result.m = i / kResults % M, result.group = i / (M * kResults), result.r = i % kResults;
  const int64_t row = first_of_block + result.group * kResults + result.r;
  result.there = result.group < groups && result.m < p.m && row < layer.n;
  result.at = result.m * layer.ldc + row;
  if (result.there) result.read(p, layer, kSwiglu, result.m, row);
  return result;
}

// The warps' shares of every sum, then of every row's squares.
template <int M, int R, bool kNorm>
using Shares = float[kWarps][M * R + (kNorm ? M : 0)];

template <int M, int R, bool kNorm>
__device__ __forceinline__ void put_shares(float (&sums)[M][R], float (&squares)[M],
                                           Shares<M, R, kNorm>& shares) {
  const auto put = [&](float share, int at) {
    share = warp_sum(share);
    if (threadIdx.x % kLanes == 0) shares[threadIdx.x / kLanes][at] = share;
  };
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < R; ++r) put(sums[m][r], m * R + r);
    if constexpr (kNorm) put(squares[m], M * R + m);
  }
}

template <class T, int M, int R, bool kSwiglu, bool kNorm>
__device__ __forceinline__ void finish(const RowProducts& p, int splits, const RowProducts::Layer& layer,
                                       const OwnResult<T>& result, const Shares<M, R, kNorm>& shares) {
  const auto in_all = [&](int at) {
    float sum = 0;
    for (int part = 0; part < splits; ++part) sum += shares[result.group * splits + part][at];
    return sum;
  };
  float scale = 1;
  if constexpr (kNorm) scale /= sqrtf(in_all(M * R + result.m) / static_cast<float>(p.k) + p.eps);
  const auto total = [&](int r) { return in_all(result.m * R + r) * scale; };
  result.finish(p, layer, kSwiglu, total(result.r), kSwiglu ? total(R / 2 + result.r) : 0.0f);
}

template <class T, int M, int R, bool kSwiglu, bool kNorm>
__global__ void __launch_bounds__(kWarps* kLanes, blocks_of(M))
    prefetched_gemv(const __grid_constant__ RowProducts p, const __grid_constant__ RowSplit split) {
  using Rows = GroupRows<T, R, kSwiglu>;
  constexpr int kResults = Rows::kResults;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) uint64_t arrived[kWarps];
  __shared__ Shares<M, R, kNorm> shares;
  const int which = split.layer_of(p, kSwiglu, blockIdx.x);
  const RowProducts::Layer &layer = p.layer[which], &up = p.layer[kSwiglu ? 1 : which];
  const int groups = kWarps / split.splits, warp = threadIdx.x / kLanes;
  const int64_t first_of_block = (static_cast<int64_t>(blockIdx.x) - split.first[which]) * groups * kResults;
  const auto rows_of = [&](int group) {
    const int64_t first = first_of_block + group * kResults;
    return Rows{first, static_cast<int>(min(int64_t{kResults}, layer.n - first)),
                reinterpret_cast<T*>(shared) + group * R * p.k, arrived + group};
  };
  const Rows to_ask_for = rows_of(threadIdx.x);  // used by the first threads

  if (static_cast<int>(threadIdx.x) < groups) {
    init_barrier(to_ask_for.arrived, 1);
    let_copies_see_barriers();
  }
  __syncwarp();
  if (static_cast<int>(threadIdx.x) < groups && p.independent) to_ask_for.ask(p, layer, up);
  if (kNorm && p.independent) ask_for_gains<T>(p);
  pdl_launch_dependents();
  pdl_wait();
  if (static_cast<int>(threadIdx.x) < groups && !p.independent) to_ask_for.ask(p, layer, up);
  __syncthreads();  // until the barriers are initialized

  const OwnResult<T> result = result_of<T, M, kResults, kSwiglu>(p, layer, first_of_block, groups);
  float sums[M][R] = {}, squares[M] = {};
  if (const Rows rows = rows_of(warp / split.splits); rows.count > 0)
    multiply<T, M, R, kSwiglu, kNorm>(p, split.splits, rows, warp % split.splits, sums, squares);
  put_shares<M, R, kNorm>(sums, squares, shares);
  __syncthreads();
  if (result.there) finish<T, M, R, kSwiglu, kNorm>(p, split.splits, layer, result, shares);
}

// Returns the bytes of a block whose groups of warps have `rows` rows of weights each.
size_t weight_bytes(size_t element, int splits, int rows, int64_t k) {
  return static_cast<size_t>(kWarps / splits * rows * k) * element;
}

template <class T, int R>
size_t weight_bytes(const RowProducts& p) {
  return weight_bytes(sizeof(T), gemv_splits(p.dtype, p.k), R, p.k);
}

template <class T, int M, int R, bool kSwiglu, bool kNorm>
bool start_kernel(const RowProducts& p, const Launch& launch) {
  const size_t bytes = weight_bytes<T, R>(p);
  if (bytes > size_t{kMaxBytes}) return false;
  const int splits = gemv_splits(p.dtype, p.k);
  RowSplit split(p, kWarps / splits * (kSwiglu ? R / 2 : R));
  split.splits = splits;
  const auto kernel = prefetched_gemv<T, M, R, kSwiglu, kNorm>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxBytes);
  Launch sharing = launch;
  sharing.shares_memory = true;
  start_with_pdl(sharing, kernel, static_cast<unsigned>(split.blocks), kWarps * kLanes, bytes, p, split);
  return true;
}

// Returns the number of blocks with one row of x that the current device runs at the same time.
int64_t blocks_at_once() { return int64_t{blocks_of(1)} * current_chip().multiprocessors; }

// With many rows of weights, a block has several, which share its fixed costs. A few rows are spread over the chip,
// but all blocks must run at once: a block that waits for another to end loads its weights too late.
template <class T, bool kSwiglu, bool kNorm>
bool start_one_row(const RowProducts& p, const Launch& launch) {
  const int64_t n = p.rows_of_weights();
  const bool is_at_once = blocks_for(n, int64_t{kWarps} / gemv_splits(p.dtype, p.k) * 2) <= blocks_at_once();
  if ((n >= kManyRows || !is_at_once) && weight_bytes<T, 4>(p) <= kWantedBytes)
    return start_kernel<T, 1, 4, kSwiglu, kNorm>(p, launch);
  if (kSwiglu || weight_bytes<T, 2>(p) <= kWantedBytes)
    return start_kernel<T, 1, 2, kSwiglu, kNorm>(p, launch);
  if constexpr (!kSwiglu) return start_kernel<T, 1, 1, false, kNorm>(p, launch);
  return false;
}

template <class T, bool kSwiglu>
bool start_either(const RowProducts& p, const Launch& launch) {
  if (p.has_norm) return p.m == 1 && start_one_row<T, kSwiglu, true>(p, launch);
  if (p.m == 1) return start_one_row<T, kSwiglu, false>(p, launch);
  if constexpr (max_gemv_rows(sizeof(T)) > 4)
    if (p.m > 4) return start_kernel<T, 8, 2, kSwiglu, false>(p, launch);
  return start_kernel<T, 4, 2, kSwiglu, false>(p, launch);
}

template <class T>
bool start_type(const RowProducts& p, const Launch& launch) {
  return p.swiglu ? start_either<T, true>(p, launch) : start_either<T, false>(p, launch);
}

}  // namespace

std::string why_no_prefetched_gemv(const RowProducts& p) {
  if (std::string why = why_no_gemv_rows(p); !why.empty()) return why;
  if (p.has_norm && p.m != 1) return "a norm of more than one row";
  const int fewest_rows = p.m == 1 && !p.swiglu ? 1 : 2;  // rows of weights, as in start_either()
  if (weight_bytes(size_of(p.dtype), gemv_splits(p.dtype, p.k), fewest_rows, p.k) <= size_t{kMaxBytes})
    return "";
  return "rows of weights that are longer than shared memory holds";
}

bool start_prefetched_gemv(const RowProducts& p, const Launch& launch) {
  if (!launch.can_use_pdl) return false;  // older chips
  if (p.dtype == DType::bf16) return start_type<__nv_bfloat16>(p, launch);
  if (p.dtype == DType::f16) return start_type<__half>(p, launch);
  return start_type<float>(p, launch);
}

}  // namespace genesis::cuda
