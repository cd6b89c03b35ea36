// Decoding is limited by memory, not by arithmetic, and a layer is a chain of small products: the memory must never
// idle between them. A block's rows of a weight are contiguous, so one bulk copy brings each warp's share into shared
// memory; it starts while the kernels ahead still run. Then x comes from the L2 cache, and the product takes about as
// long as a kernel launch did.
#include "backends/cuda/gemm/gemv_prefetch/gemv_prefetch.h"

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/cuda/runtime/launch.h"
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

  __device__ void ask(const Gemv& gemv, const Gemv::Layer& layer, const Gemv::Layer& up) const {
    if (count <= 0) return;
    const auto bytes = static_cast<uint32_t>(count * gemv.k * int64_t{sizeof(T)});
    expect_bytes(arrived, kSwiglu ? 2 * bytes : bytes);
    copy_to_shared(weights, static_cast<const T*>(layer.weight) + first * gemv.k, bytes, arrived);
    if constexpr (kSwiglu)
      copy_to_shared(weights + kResults * gemv.k, static_cast<const T*>(up.weight) + first * gemv.k, bytes,
                     arrived);
  }
};

// Adds to sums[m][r] this lane's share of row m of x times row r. With kNorm x is first multiplied by the norm's
// weight, and the lane's share of row m of x squared is added to squares[m]. x is loaded some packs ahead.
template <class T, int M, int R, bool kSwiglu, bool kNorm>
__device__ void multiply(const Gemv& gemv, const T* x, const GroupRows<T, R, kSwiglu>& rows, int part,
                         float (&sums)[M][R], float (&squares)[M]) {
  constexpr int N = kPack<T>, kAhead = M > 1 ? 8 / M : R >= 4 || kNorm ? 4 : 5;
  const int packs = static_cast<int>(gemv.k / N), step = kLanes * gemv.splits;
  const auto* weights = reinterpret_cast<const Words*>(rows.weights);
  for (int p0 = part * kLanes + static_cast<int>(threadIdx.x) % kLanes; p0 < packs; p0 += kAhead * step) {
    Words v[kAhead][M], gains[kNorm ? kAhead : 1];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int p = p0 + u * step; p < packs) {
        if constexpr (kNorm) gains[u] = static_cast<const Words*>(gemv.norm)[p];
#pragma unroll
        for (int m = 0; m < M; ++m)
          v[u][m] =
              *reinterpret_cast<const Words*>(x + min(int64_t{m}, gemv.m - 1) * gemv.lda + int64_t{p} * N);
      }
    wait_for_phase(rows.arrived, 0);
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (const int p = p0 + u * step; p < packs) {
        Words w[R];
#pragma unroll
        for (int r = 0; r < R; ++r) w[r] = weights[r * packs + p];
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

// One element of y: its index, and the values that are added to its sum.
template <class T>
struct Result {
  bool there = false;
  int m = 0, group = 0, r = 0;
  int64_t at = 0;  // index in y
  float bias = 0, up_bias = 0, addend = 0;

  __device__ void read(const Gemv::Layer& layer, const Gemv::Layer& up, int64_t row, bool wide) {
    if (layer.bias) bias = widen(static_cast<const T*>(layer.bias)[row]);
    if (up.bias) up_bias = widen(static_cast<const T*>(up.bias)[row]);
    if (layer.addend) addend = addend_at<T>(layer.addend, at, wide);
  }
};

// Prefetches the norm's weight into the L2 cache: other layers' weights have replaced it there since the last token.
template <class T>
__device__ void ask_for_gains(const Gemv& gemv) {
  constexpr int64_t kLine = 128;
  const int64_t bytes = gemv.k * int64_t{sizeof(T)};
  for (int64_t at = threadIdx.x * kLine; at < bytes; at += kWarps * kLanes * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(gemv.norm) + at));
}

// Blocks that share a multiprocessor, including those of the next kernels: one row of x needs few registers.
constexpr int blocks_of(int m) { return m > 1 ? 3 : 8; }

// Returns the result that this thread finishes.
template <class T, int M, int kResults>
__device__ __forceinline__ Result<T> result_of(const Gemv& gemv, const Gemv::Layer& layer,
                                               const Gemv::Layer& up, int64_t first_of_block, int groups) {
  static_assert(kWarps * M * kResults <= kWarps * kLanes, "a thread finishes one result");
  Result<T> result;
  const int i = static_cast<int>(threadIdx.x);
  if (i >= groups * M * kResults) return result;
  result.m = i / kResults % M, result.group = i / (M * kResults), result.r = i % kResults;
  const int64_t row = first_of_block + result.group * kResults + result.r;
  result.there = result.m < gemv.m && row < layer.n;
  result.at = result.m * layer.ldc + row;
  if (result.there) result.read(layer, up, row, gemv.wide);
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
__device__ __forceinline__ void finish(const Gemv& gemv, const Gemv::Layer& layer, const Gemv::Layer& up,
                                       const Result<T>& result, const Shares<M, R, kNorm>& shares) {
  const auto in_all = [&](int at) {
    float sum = 0;
    for (int part = 0; part < gemv.splits; ++part) sum += shares[result.group * gemv.splits + part][at];
    return sum;
  };
  float scale = 1;
  if constexpr (kNorm) scale /= sqrtf(in_all(M * R + result.m) / static_cast<float>(gemv.k) + gemv.eps);
  const auto total = [&](int r) { return in_all(result.m * R + r) * scale; };
  float a = total(result.r);
  if (layer.bias) a += result.bias;
  if constexpr (kSwiglu) {
    float b = total(R / 2 + result.r);
    if (up.bias) b += result.up_bias;
    static_cast<T*>(layer.y)[result.at] = narrow<T>(gated<T>(widen(narrow<T>(a)), widen(narrow<T>(b))));
  } else {
    a = activate(a, gemv.activation);
    if (layer.addend) a += result.addend;
    put_result<T>(layer.y, result.at, gemv.wide, a);
  }
}

template <class T, int M, int R, bool kSwiglu, bool kNorm>
__global__ void __launch_bounds__(kWarps* kLanes, blocks_of(M))
    prefetched_gemv(const __grid_constant__ Gemv gemv, const T* x) {
  using Rows = GroupRows<T, R, kSwiglu>;
  constexpr int kResults = Rows::kResults;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) uint64_t arrived[kWarps];
  __shared__ Shares<M, R, kNorm> shares;
  const int which = gemv.layer_of<kSwiglu>(blockIdx.x);
  const Gemv::Layer &layer = gemv.layer[which], &up = gemv.layer[kSwiglu ? 1 : which];
  const int groups = kWarps / gemv.splits, warp = threadIdx.x / kLanes;
  const int64_t first_of_block = (static_cast<int64_t>(blockIdx.x) - layer.first_block) * groups * kResults;
  const auto rows_of = [&](int group) {
    const int64_t first = first_of_block + group * kResults;
    return Rows{first, static_cast<int>(min(int64_t{kResults}, layer.n - first)),
                reinterpret_cast<T*>(shared) + group * R * gemv.k, arrived + group};
  };
  const Rows to_ask_for = rows_of(threadIdx.x);  // used by the first threads

  if (static_cast<int>(threadIdx.x) < groups) {
    init_barrier(to_ask_for.arrived, 1);
    let_copies_see_barriers();
  }
  __syncwarp();
  if (static_cast<int>(threadIdx.x) < groups && gemv.independent) to_ask_for.ask(gemv, layer, up);
  if (kNorm && gemv.independent) ask_for_gains<T>(gemv);
  pdl_launch_dependents();
  pdl_wait();
  if (static_cast<int>(threadIdx.x) < groups && !gemv.independent) to_ask_for.ask(gemv, layer, up);
  __syncthreads();  // until the barriers are initialized

  const Result<T> result = result_of<T, M, kResults>(gemv, layer, up, first_of_block, groups);
  float sums[M][R] = {}, squares[M] = {};
  if (const Rows rows = rows_of(warp / gemv.splits); rows.count > 0)
    multiply<T, M, R, kSwiglu, kNorm>(gemv, x, rows, warp % gemv.splits, sums, squares);
  put_shares<M, R, kNorm>(sums, squares, shares);
  __syncthreads();
  if (result.there) finish<T, M, R, kSwiglu, kNorm>(gemv, layer, up, result, shares);
}

// Returns the bytes of a block whose groups of warps have `rows` rows of weights each.
size_t weight_bytes(size_t element, int splits, int rows, int64_t k) {
  return static_cast<size_t>(kWarps / splits * rows * k) * element;
}

template <class T, int R>
size_t weight_bytes(const Gemv& gemv) {
  return weight_bytes(sizeof(T), gemv.splits, R, gemv.k);
}

template <class T, int M, int R, bool kSwiglu, bool kNorm>
bool start_kernel(Gemv gemv, const void* x, const GemvStart& start) {
  const size_t bytes = weight_bytes<T, R>(gemv);
  if (bytes > size_t{kMaxBytes}) return false;
  const int64_t blocks = gemv.number_blocks(kWarps / gemv.splits * (kSwiglu ? R / 2 : R), kSwiglu);
  const auto kernel = prefetched_gemv<T, M, R, kSwiglu, kNorm>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxBytes);
  Launch launch;
  launch.stream = start.stream;
  launch.early = start.early;
  launch.shares_memory = true;
  start_with_pdl(launch, kernel, static_cast<unsigned>(blocks), kWarps * kLanes, bytes, gemv,
                 static_cast<const T*>(x));
  return true;
}

// Returns the number of blocks with one row of x that the current device runs at the same time.
int64_t blocks_at_once() { return int64_t{blocks_of(1)} * current_chip().multiprocessors; }

// With many rows of weights, a block has several, which share its fixed costs. A few rows are spread over the chip,
// but all blocks must run at once: a block that waits for another to end loads its weights too late.
template <class T, bool kSwiglu, bool kNorm>
bool start_one_row(const Gemv& gemv, const void* x, const GemvStart& start) {
  int64_t n = 0;
  for (int i = 0; i < gemv.layers; ++i) n += gemv.layer[i].n;
  const bool is_at_once = blocks_for(n, int64_t{kWarps} / gemv.splits * 2) <= blocks_at_once();
  if ((n >= kManyRows || !is_at_once) && weight_bytes<T, 4>(gemv) <= kWantedBytes)
    return start_kernel<T, 1, 4, kSwiglu, kNorm>(gemv, x, start);
  if (kSwiglu || weight_bytes<T, 2>(gemv) <= kWantedBytes)
    return start_kernel<T, 1, 2, kSwiglu, kNorm>(gemv, x, start);
  if constexpr (!kSwiglu) return start_kernel<T, 1, 1, false, kNorm>(gemv, x, start);
  return false;
}

template <class T, bool kSwiglu>
bool start_type(const Gemv& gemv, const void* x, const GemvStart& start) {
  if (gemv.norm) return gemv.m == 1 && start_one_row<T, kSwiglu, true>(gemv, x, start);
  if (gemv.m == 1) return start_one_row<T, kSwiglu, false>(gemv, x, start);
  if constexpr (max_gemv_rows(sizeof(T)) > 4)
    if (gemv.m > 4) return start_kernel<T, 8, 2, kSwiglu, false>(gemv, x, start);
  return start_kernel<T, 4, 2, kSwiglu, false>(gemv, x, start);
}

template <class T>
bool start_either(bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start) {
  return swiglu ? start_type<T, true>(gemv, x, start) : start_type<T, false>(gemv, x, start);
}

}  // namespace

std::string prefetch_declines(DType dtype, bool swiglu, int64_t m, int64_t k) {
  const int fewest_rows = m == 1 && !swiglu ? 1 : 2;  // rows of weights, as in start_type()
  if (weight_bytes(size_of(dtype), gemv_splits(dtype, k), fewest_rows, k) <= size_t{kMaxBytes}) return "";
  return "rows of weights that are longer than shared memory holds";
}

bool start_prefetched_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x,
                           const GemvStart& start) {
  if (!start.can_use_pdl) return false;  // older chips
  if (dtype == DType::bf16) return start_either<__nv_bfloat16>(swiglu, gemv, x, start);
  if (dtype == DType::f16) return start_either<__half>(swiglu, gemv, x, start);
  return start_either<float>(swiglu, gemv, x, start);
}

std::string prefetched_gemv_declines(const GemmProblem& p) {
  if (std::string why = gemv_declines(p); !why.empty()) return why;
  if (std::string why = prefetch_declines(p.in, false, p.m, p.k); !why.empty()) return why;
  return why_no_early_starts_here().value_or("");
}

std::shared_ptr<const Gemm> create_prefetched_gemv(const GemmProblem& problem) {
  return create_gemv_with(problem, start_prefetched_gemv);
}

}  // namespace genesis::cuda
