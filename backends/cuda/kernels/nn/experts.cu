// experts, for the few rows of decoding: a block reads the weights of one expert for all rows that chose it, so that the launches
// are two or three: the products with gate and up, and those with down, which add up the experts of a row where rows are few.
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/kernels/nn/expert_call.h"
#include "backends/cuda/kernels/nn/expert_rows.h"

namespace genesis::cuda {
namespace {

using Op = ops::Experts;

constexpr int kWarps = 8, kBlock = kWarps * kLanes;
constexpr int kMaxChosen = 32;
constexpr int kShared = 4;  // rows that share the weights of an expert in a block

// The places of a block, all of one group: with M = 1 the place with the block's number, else those of the group with this number.
template <int M>
struct OwnPlaces {
  int group;
  int64_t first = 0, end = 0;

  __device__ OwnPlaces(const Groups& groups, int64_t index) {
    group = M == 1 ? group_of(groups, index) : static_cast<int>(index);
    if (group < 0) return;
    first = M == 1 ? index : groups.first(group);
    end = M == 1 ? index + 1 : groups.end(group);
  }
  // Returns how many places from `at` on share a reading of the weights.
  __device__ int count(int64_t at) const { return static_cast<int>(min(int64_t{M}, end - at)); }
};

// Steps of columns that a block takes for its places, so that finding them takes a small part of its time.
template <WeightFormat kFormat, int M>
inline constexpr int kSteps = M > 1 && kFormat == WeightFormat::kPlain ? 2 : 1;

// Adds the products of rows of x with lines of quantized weights. All threads of the block call it.
template <WeightFormat kFormat, class T, int M>
__device__ void multiply_quantized(const T* const (&x)[M], int count, const Line (&lines)[kLines], int64_t k,
                                   ByteChunk* chunks, float (&sums)[kLines * M]) {
  for (int64_t first = 0; first < k; first += kChunk) {
    const int values = static_cast<int>(min(int64_t{kChunk}, k - first));
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; ++m)
      if (m < count) make_bytes(x[m] + first, values, chunks[m], static_cast<int>(threadIdx.x), kBlock);
    __syncthreads();
    multiply_bytes<kFormat, M>(chunks, count, lines, first, values, sums);
  }
}

// The same for weights of any format.
template <WeightFormat kFormat, class T, int N, int M>
__device__ void multiply_shared(const T* const (&x)[M], int count, const Line (&lines)[kLines], int64_t k,
                                wide_t<T> (&sums)[kLines * M]) {
  if constexpr (kFormat == WeightFormat::kPlain) {
    multiply_numbers<T, N>(x, count, lines, k, sums);
  } else {
    __shared__ ByteChunk chunks[M];
    multiply_quantized<kFormat>(x, count, lines, k, chunks, sums);
  }
}

// Sums over the lanes of the warp; all of them get the results.
template <int M, class W>
__device__ __forceinline__ void sum_over_lanes(W (&sums)[kLines * M], int count) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (m >= count) break;
#pragma unroll
    for (int r = 0; r < kLines; ++r) sums[r * M + m] = warp_sum(sums[r * M + m]);
  }
}

// Returns what the sum of a line begins with in this lane: its bias in the first lane of a warp.
template <class T>
__device__ __forceinline__ wide_t<T> begun_sum(const void* biases, int64_t line) {
  return biases && threadIdx.x % kLanes == 0 ? widen(static_cast<const T*>(biases)[line]) : wide_t<T>(0);
}

// A warp computes kLines / 2 columns of activation(gate x, up x).
template <WeightFormat kFormat, class T, int N, int M>
__device__ void multiply_gate_up_columns(const ExpertCall& call, int group, const T* const (&x)[M], int count,
                                         int64_t column0, T* y) {
  constexpr int kColumns = kLines / 2;
  Line lines[kLines];
  wide_t<T> sums[kLines * M];
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int64_t line = group * call.n + min(column0 + j, call.n - 1);
    lines[2 * j] = line_at<kFormat, T>(call.gate, call.gate_scales, line, call.k);
    lines[2 * j + 1] = line_at<kFormat, T>(call.up, call.up_scales, line, call.k);
    const wide_t<T> gate = begun_sum<T>(call.gate_biases, line), up = begun_sum<T>(call.up_biases, line);
#pragma unroll
    for (int m = 0; m < M; ++m) sums[2 * j * M + m] = gate, sums[(2 * j + 1) * M + m] = up;
  }
  multiply_shared<kFormat, T, N, M>(x, count, lines, call.k, sums);
  sum_over_lanes<M>(sums, count);
  if (threadIdx.x % kLanes != 0) return;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      if (m < count && column0 + j < call.n)
        y[m * call.n + column0 + j] = narrow<T>(activated<T>(call, widen(narrow<T>(sums[2 * j * M + m])),
                                                             widen(narrow<T>(sums[(2 * j + 1) * M + m]))));
}

// Asks for `lines` lines of down in the second-level cache. Offsets are known as soon as a block of the products with gate and up
// waits no more, while the last of these keep memory busy in part only.
template <WeightFormat kFormat, class T>
__device__ void ask_for_down(const ExpertCall& call, int group, int64_t column0, int lines) {
  const int at = static_cast<int>(threadIdx.x);
  if (at >= lines || column0 + at >= call.hidden) return;
  const Line line =
      line_at<kFormat, T>(call.down, call.down_scales, group * call.hidden + column0 + at, call.n);
  constexpr int64_t kValues = kFormat == WeightFormat::kPlain ? 16 / sizeof(T) : kValuesOfPack<kFormat>;
  if (call.n % kValues == 0 && reinterpret_cast<uintptr_t>(line.data) % 16 == 0)
    prefetch_into_cache(line.data, static_cast<uint32_t>(call.n / kValues * 16));
}

template <WeightFormat kFormat, class T, int N, int M>
__global__ void __launch_bounds__(kBlock, M == 1 ? 4 : 2)
    multiply_gate_up(const __grid_constant__ ExpertCall call) {
  pdl_wait();
  pdl_launch_dependents();  // behind the wait: the kernel behind this one reads offsets before it waits
  if (blockIdx.x == 0) check_offsets(call.groups, threadIdx.x, kBlock, call.fault);
  constexpr int kStep = kWarps * kLines / 2, kColumns = kStep * kSteps<kFormat, M>;
  const int64_t across = (call.n + kColumns - 1) / kColumns, column = blockIdx.x % across * kColumns;
  const OwnPlaces<M> own(call.groups, blockIdx.x / across);
  for (int64_t at = own.first; at < own.end; at += M) {
    const T* x[M] = {};
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (m >= own.count(at)) break;
      const int64_t row = call.rows[at + m];
      if (row < 0 || row >= call.x_rows) call.fault(row, call.x_rows);
      x[m] = static_cast<const T*>(call.x) + min(max(row, int64_t{0}), call.x_rows - 1) * call.k;
    }
    for (int64_t c = column; c < min(column + kColumns, call.n); c += kStep)
      multiply_gate_up_columns<kFormat, T, N, M>(call, own.group, x, own.count(at),
                                                 c + threadIdx.x / kLanes * (kLines / 2),
                                                 static_cast<T*>(call.between) + at * call.n);
  }
}

// A warp computes kLines columns of the products with down.
template <WeightFormat kFormat, class T, int N, int M>
__device__ void multiply_down_columns(const ExpertCall& call, int group, const T* const (&x)[M], int count,
                                      int64_t column0, wide_t<T>* y) {
  Line lines[kLines];
  wide_t<T> sums[kLines * M];
#pragma unroll
  for (int r = 0; r < kLines; ++r) {
    const int64_t line = group * call.hidden + min(column0 + r, call.hidden - 1);
    lines[r] = line_at<kFormat, T>(call.down, call.down_scales, line, call.n);
    const wide_t<T> bias = begun_sum<T>(call.down_biases, line);
#pragma unroll
    for (int m = 0; m < M; ++m) sums[r * M + m] = bias;
  }
  multiply_shared<kFormat, T, N, M>(x, count, lines, call.n, sums);
  sum_over_lanes<M>(sums, count);
  if (threadIdx.x % kLanes != 0) return;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < kLines; ++r)
      if (m < count && column0 + r < call.hidden) y[m * call.hidden + column0 + r] = sums[r * M + m];
}

template <WeightFormat kFormat, class T, int N, int M>
__global__ void __launch_bounds__(kBlock, 2) multiply_down(const __grid_constant__ ExpertCall call) {
  pdl_launch_dependents();
  constexpr int kStep = kWarps * kLines, kColumns = kStep * kSteps<kFormat, M>;
  const int64_t across = (call.hidden + kColumns - 1) / kColumns, column = blockIdx.x % across * kColumns;
  const OwnPlaces<M> own(call.groups, blockIdx.x / across);
  if (own.first < own.end) ask_for_down<kFormat, T>(call, own.group, column, kColumns);
  pdl_wait();
  for (int64_t at = own.first; at < own.end; at += M) {
    const T* x[M] = {};
#pragma unroll
    for (int m = 0; m < M; ++m) x[m] = static_cast<const T*>(call.between) + (at + m) * call.n;
    for (int64_t c = column; c < min(column + kColumns, call.hidden); c += kStep)
      multiply_down_columns<kFormat, T, N, M>(call, own.group, x, own.count(at),
                                              c + threadIdx.x / kLanes * kLines,
                                              static_cast<wide_t<T>*>(call.results) + at * call.hidden);
  }
}

// Column sets of kLines columns that a block of multiply_and_weigh has: its warps are the experts of a row.
__host__ __device__ constexpr int sets_of(int chosen) { return chosen < kWarps ? kWarps / chosen : 1; }

// A warp multiplies the numbers of one place with kLines lines of down. All of its lanes get the sums.
template <WeightFormat kFormat, class T, int N>
__device__ void multiply_place(const ExpertCall& call, int64_t place, int group, int64_t column0,
                               wide_t<T> (&sums)[kLines]) {
  Line lines[kLines];
#pragma unroll
  for (int r = 0; r < kLines; ++r) {
    const int64_t line = group * call.hidden + min(column0 + r, call.hidden - 1);
    lines[r] = line_at<kFormat, T>(call.down, call.down_scales, line, call.n);
    sums[r] = begun_sum<T>(call.down_biases, line);
  }
  const T* x[1] = {static_cast<const T*>(call.between) + place * call.n};
  if constexpr (kFormat == WeightFormat::kPlain) {
    multiply_numbers<T, N>(x, 1, lines, call.n, sums);
  } else {
    __shared__ ByteChunk chunks[kWarps];
    ByteChunk* own = chunks + threadIdx.x / kLanes;
    for (int64_t at = 0; at < call.n; at += kChunk) {
      const int values = static_cast<int>(min(int64_t{kChunk}, call.n - at));
      __syncwarp();
      make_bytes(x[0] + at, values, *own, static_cast<int>(threadIdx.x) % kLanes, kLanes);
      __syncwarp();
      multiply_bytes<kFormat, 1>(own, 1, lines, at, values, sums);
    }
  }
  sum_over_lanes<1>(sums, 1);
}

// A block computes some columns of one row: a warp multiplies with the weights of one expert that the row chose.
template <WeightFormat kFormat, class T, int N>
__global__ void __launch_bounds__(kBlock, 4) multiply_and_weigh(const __grid_constant__ ExpertCall call) {
  __shared__ wide_t<T> products[kMaxChosen][kLines];
  begin_in_order();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes, sets = sets_of(call.chosen);
  const int64_t row = blockIdx.x % call.y_rows, first = blockIdx.x / call.y_rows * sets * kLines;
  for (int job = thread / kLanes; job < call.chosen * sets; job += kWarps) {
    const int64_t column0 = first + job / call.chosen * kLines;
    const int64_t place = place_of(call, row * call.chosen + job % call.chosen);
    const int group = group_of(call.groups, place);
    wide_t<T> sums[kLines] = {};
    if (place >= 0 && group >= 0 && column0 < call.hidden)
      multiply_place<kFormat, T, N>(call, place, group, column0, sums);
#pragma unroll
    for (int r = 0; r < kLines; ++r)
      if (lane == r) products[job][r] = sums[r];
  }
  __syncthreads();
  const int set = thread / kLines;
  if (set < sets && first + thread < call.hidden)
    weigh<T>(call, row, first + thread,
             [&](int j) { return products[set * call.chosen + j][thread % kLines]; });
}

// --- launches

// Starts a kernel of products: for each of `owners`, places or groups, blocks of `columns` of `width` columns.
template <class Kernel>
void start_products(const KernelContext& c, Kernel kernel, int64_t owners, int64_t width, int64_t columns,
                    const ExpertCall& call) {
  start_with_pdl(c, kernel, owners * blocks_for(width, columns), kBlock, 0, call);
}

bool are_few(const ExpertCall& call) {
  return call.y_rows <= kFewRows && call.chosen > 0 && call.chosen <= kMaxChosen;
}

template <WeightFormat kFormat, class T, int N>
void start_down(const KernelContext& c, const ExpertCall& call) {
  if (are_few(call))
    return start_products(c, multiply_and_weigh<kFormat, T, N>, call.y_rows, call.hidden,
                          sets_of(call.chosen) * kLines, call);
  start_products(c, multiply_down<kFormat, T, N, kShared>, call.groups.count, call.hidden,
                 kWarps * kLines * kSteps<kFormat, kShared>, call);
  start_with_pdl(c, weigh_results<T>, blocks_for(call.y_rows * call.hidden, kWeighThreads), kWeighThreads, 0,
                 call);
}

// Calls body with a weight format as a constant; f64 has no quantized weights.
template <class T, class Body>
void with_format(WeightFormat format, const Body& body) {
  if constexpr (!std::is_same_v<T, double>) {
    if (format == WeightFormat::kQ8) return body(std::integral_constant<WeightFormat, WeightFormat::kQ8>{});
    if (format == WeightFormat::kQ4) return body(std::integral_constant<WeightFormat, WeightFormat::kQ4>{});
    if (format == WeightFormat::kQ4m) return body(std::integral_constant<WeightFormat, WeightFormat::kQ4m>{});
  }
  body(std::integral_constant<WeightFormat, WeightFormat::kPlain>{});
}

// Calls body with the elements of an access: 16 bytes where all rows of k elements start at a multiple of them.
template <WeightFormat kFormat, class T, class Body>
void with_access(const KernelContext& c, int64_t k, const Body& body) {
  if constexpr (kFormat == WeightFormat::kPlain)
    return with_packs<T>(c, k, body);
  else
    body(std::integral_constant<int, 1>{});
}

}  // namespace

void run_expert_rows(const KernelContext& c) {
  const auto& op = c.attributes<Op>();
  if (c.output().numel() == 0) return;
  const ExpertCall call = expert_call_of(c);
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_format<T>(op.format, [&](auto format) {
      with_access<format(), T>(c, call.k, [&](auto elements) {
        constexpr int kColumns = kWarps * kLines / 2;
        if (are_few(call))
          return start_products(c, multiply_gate_up<format(), T, elements(), 1>, call.groups.rows, call.n,
                                kColumns, call);
        start_products(c, multiply_gate_up<format(), T, elements(), kShared>, call.groups.count, call.n,
                       kColumns * kSteps<format(), kShared>, call);
      });
    });
    with_format<T>(op.down_format, [&](auto format) {
      with_access<format(), T>(c, call.n,
                               [&](auto elements) { start_down<format(), T, elements()>(c, call); });
    });
  });
}

namespace {

// The kernels gain with few pairs.
std::optional<std::string> decline_many(const KernelQuery& query) {
  if (query.inputs[Op::kPlaces].numel() > kMaxPairs)
    return "more than " + std::to_string(kMaxPairs) + " pairs";
  return std::nullopt;
}

constexpr OpKernel kKernels[] = {
    {"experts",
     {.name = "tiles",
      .run = run_expert_tiles,
      .can_run = decline_expert_tiles,
      .scratch_bytes = experts_scratch}},
    {"experts",
     {.name = "rows", .run = run_expert_rows, .can_run = decline_many, .scratch_bytes = experts_scratch}},
    {"experts",
     {.name = "many_rows", .run = run_expert_rows, .scratch_bytes = experts_scratch, .decomposed = true}}};

}  // namespace

std::span<const OpKernel> experts_kernels() { return kKernels; }

}  // namespace genesis::cuda
