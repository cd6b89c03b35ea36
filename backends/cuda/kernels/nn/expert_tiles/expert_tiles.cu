// A warp multiplies 16 lines of an expert's weights with 8 or 16 of the rows that chose it, by tensor cores. The tokens of a decoding step
// choose most experts, a few rows each: the time is that of reading weights. Each lane copies its part of them into a ring of its own
// some steps ahead, so that memory never waits for a product; the first steps of down are on their way before the products with gate
// and up have ended.
#include <limits>

#include "backends/cuda/device/lane_ring.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/kernels/nn/expert_call.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4, kBlock = kWarps * kLanes;
constexpr int kBlocksEach = 4;                // blocks of a multiprocessor: 128 registers a thread
constexpr int kHalf = 32, kStep = 2 * kHalf;  // elements of k of two such products, and of a step
using Ring = LaneRing<4, 4>;

// The lines of a warp. Lane 4 g + t has line g of the eight from `low` on, and of those from `high` on: of each 32 elements of k the
// eight from 8 t on, and those of row g of x.
template <class T>
struct WarpTile {
  const T *low, *high;  // the lane's lines
  int k;
  Ring ring;

  static __device__ __forceinline__ int lane_line() { return static_cast<int>(threadIdx.x) % kLanes / 4; }
  static __device__ __forceinline__ int element(int step, int half) {
    return step * kStep + half * kHalf + static_cast<int>(threadIdx.x) % 4 * 8;
  }

  // Starts the copies of a step; elements behind the last one become zeros.
  __device__ __forceinline__ void start_copies(int stage, int step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = element(step, half);
      const bool there = at < k;
      copy_or_zero(ring.at(stage, 2 * half), low + (there ? at : 0), there);
      copy_or_zero(ring.at(stage, 2 * half + 1), high + (there ? at : 0), there);
    }
  }
  __device__ __forceinline__ void fill() const {
    Ring::fill(0, 1, [&](int stage, int step) { start_copies(stage, step); });
  }

  // Adds the products with the rows of x, eight by eight; `x` are this lane's rows, or null. Call after fill(). Of each eight the lane
  // gets the sums of rows 2 t and 2 t + 1 with its low line, then with its high one.
  template <int kEights>
  __device__ __forceinline__ void multiply(const T* const (&x)[kEights], float (&sums)[kEights][4]) const {
    __syncwarp();
    int stage = 0;
    for (int step = 0; step * kStep < k; ++step) {
      Words own[kEights][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = element(step, half);
#pragma unroll
        for (int e = 0; e < kEights; ++e)
          own[e][half] = x[e] && at < k ? *reinterpret_cast<const Words*>(x[e] + at) : Words{};
      }
      wait_for_batches<Ring::kStages - 1>();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Words of_low = ring.read(stage, 2 * half), of_high = ring.read(stage, 2 * half + 1);
#pragma unroll
        for (int e = 0; e < kEights; ++e) multiply_32<T>(sums[e], of_low, of_high, own[e][half]);
      }
      start_copies(stage, step + Ring::kStages);
      end_batch();
      if (++stage == Ring::kStages) stage = 0;
    }
    wait_for_batches<0>();
  }
};

// The expert and the columns of a warp, `kWidth` each.
template <int kWidth>
struct WarpColumns {
  int group;
  int64_t first, end;  // the places of the expert
  int64_t column;

  __device__ __forceinline__ WarpColumns(const Groups& groups, int64_t columns) {
    const int64_t across = (columns + kWarps * kWidth - 1) / (kWarps * kWidth);
    group = static_cast<int>(blockIdx.x / across);
    column = (blockIdx.x % across * kWarps + threadIdx.x / kLanes) * kWidth;
    first = groups.first(group);
    end = column < columns ? groups.end(group) : first;  // warps behind the last column have nothing to do
  }
};
constexpr int kGateColumns = 8, kDownColumns = 16;

// Returns the row of x at a place; null from `end` on.
template <class T>
__device__ __forceinline__ const T* row_at(const ExpertCall& call, int64_t place, int64_t end) {
  if (place >= end) return nullptr;
  const int64_t row = call.rows[place];
  if (row < 0 || row >= call.x_rows) call.fault(row, call.x_rows);
  return static_cast<const T*>(call.x) + min(max(row, int64_t{0}), call.x_rows - 1) * call.k;
}

template <class T>
__device__ __forceinline__ float bias_of(const void* biases, int64_t line) {
  return biases ? widen(static_cast<const T*>(biases)[line]) : 0.0f;
}

// Calls write(place, e, j) for the lane's rows of each eight, numbers 2 t and 2 t + 1, from place `at` on.
template <int kEights, class Write>
__device__ __forceinline__ void for_own_rows(int64_t at, int64_t end, const Write& write) {
#pragma unroll
  for (int e = 0; e < kEights; ++e)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      if (const int64_t place = at + 8 * e + static_cast<int>(threadIdx.x) % 4 * 2 + j; place < end)
        write(place, e, j);
}

template <class T, int kEights>
__global__ void __launch_bounds__(kBlock, kBlocksEach)
    multiply_gate_up_tiles(const __grid_constant__ ExpertCall call) {
  __shared__ __align__(16) unsigned char rings[kWarps * Ring::kWarpBytes];
  pdl_wait();
  pdl_launch_dependents();  // behind the wait: the kernel behind this one reads offsets before it waits
  if (blockIdx.x == 0) check_offsets(call.groups, threadIdx.x, kBlock, call.fault);
  const WarpColumns<kGateColumns> own(call.groups, call.n);
  const int g = WarpTile<T>::lane_line();
  const int64_t column = min(own.column, call.n - kGateColumns) + g, line = own.group * call.n + column;
  const WarpTile<T> tile{static_cast<const T*>(call.gate) + line * call.k,
                         static_cast<const T*>(call.up) + line * call.k, static_cast<int>(call.k),
                         Ring(rings)};
  const float gate_bias = bias_of<T>(call.gate_biases, line), up_bias = bias_of<T>(call.up_biases, line);
  for (int64_t at = own.first; at < own.end; at += 8 * kEights) {
    tile.fill();
    const T* x[kEights];
    float sums[kEights][4];
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      x[e] = row_at<T>(call, at + 8 * e + g, own.end);
      sums[e][0] = sums[e][1] = gate_bias, sums[e][2] = sums[e][3] = up_bias;
    }
    tile.multiply(x, sums);
    for_own_rows<kEights>(at, own.end, [&](int64_t place, int e, int j) {
      static_cast<T*>(call.between)[place * call.n + column] =
          narrow<T>(activated<T>(call, widen(narrow<T>(sums[e][j])), widen(narrow<T>(sums[e][2 + j]))));
    });
  }
}

template <class T, int kEights>
__global__ void __launch_bounds__(kBlock, kBlocksEach)
    multiply_down_tiles(const __grid_constant__ ExpertCall call) {
  __shared__ __align__(16) unsigned char rings[kWarps * Ring::kWarpBytes];
  pdl_launch_dependents();
  const WarpColumns<kDownColumns> own(call.groups, call.hidden);
  const int g = WarpTile<T>::lane_line();
  const int64_t low = min(own.column + g, call.hidden - 1), high = min(own.column + 8 + g, call.hidden - 1),
                line = own.group * call.hidden;
  const T *down = static_cast<const T*>(call.down), *between = static_cast<const T*>(call.between);
  const WarpTile<T> tile{down + (line + low) * call.n, down + (line + high) * call.n,
                         static_cast<int>(call.n), Ring(rings)};
  const float low_bias = bias_of<T>(call.down_biases, line + low),
              high_bias = bias_of<T>(call.down_biases, line + high);
  if (own.first < own.end) tile.fill();
  pdl_wait();
  for (int64_t at = own.first; at < own.end; at += 8 * kEights) {
    if (at != own.first) tile.fill();
    const T* x[kEights];
    float sums[kEights][4];
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      x[e] = at + 8 * e + g < own.end ? between + (at + 8 * e + g) * call.n : nullptr;
      sums[e][0] = sums[e][1] = low_bias, sums[e][2] = sums[e][3] = high_bias;
    }
    tile.multiply(x, sums);
    for_own_rows<kEights>(at, own.end, [&](int64_t place, int e, int j) {
      float* y = static_cast<float*>(call.results) + place * call.hidden;
      y[low] = sums[e][j];
      if (own.column + 8 + g < call.hidden) y[high] = sums[e][2 + j];
    });
  }
}

// Starts a kernel with `width` columns for each warp.
template <class Kernel>
void start_tiles(const KernelContext& c, Kernel kernel, int64_t columns, int64_t width,
                 const ExpertCall& call) {
  start_with_pdl(c, kernel, call.groups.count * blocks_for(columns, kWarps * width), kBlock, 0, call);
}

template <class T, int kEights>
void run_tiles(const KernelContext& c, const ExpertCall& call) {
  start_tiles(c, multiply_gate_up_tiles<T, kEights>, call.n, kGateColumns, call);
  start_tiles(c, multiply_down_tiles<T, kEights>, call.hidden, kDownColumns, call);
  start_with_pdl(c, weigh_results<T>, blocks_for(call.y_rows * call.hidden, kWeighThreads), kWeighThreads, 0,
                 call);
}

// More than eight rows of an expert read its weights again; where experts have as many on average as half of that, 16 share them.
template <class T>
void run_tiles_of(const KernelContext& c) {
  const ExpertCall call = expert_call_of(c);
  if (call.groups.rows > 4 * int64_t{call.groups.count}) return run_tiles<T, 2>(c, call);
  run_tiles<T, 1>(c, call);
}

}  // namespace

void run_expert_tiles(const KernelContext& c) {
  if (c.output().numel() == 0) return;
  if (!aligned_to_packs(c)) return run_expert_rows(c);
  if (c.output().dtype == DType::bf16)
    run_tiles_of<__nv_bfloat16>(c);
  else
    run_tiles_of<__half>(c);
}

std::optional<std::string> decline_expert_tiles(const KernelQuery& query) {
  using Op = ops::Experts;
  const auto op = from_attributes<Op>(query.attributes);
  const TensorType &x = query.inputs[Op::kX], &down = query.inputs[Op::kDown];
  if (x.dtype != DType::bf16 && x.dtype != DType::f16) return "x is not of 16 bits";
  if (op.format != WeightFormat::kPlain || op.down_format != WeightFormat::kPlain) return "quantized weights";
  for (const int64_t size : {last_size(x), last_size(down), down.shape[1].value()})
    if (size == 0 || size % 8 != 0 || size > std::numeric_limits<int>::max())
      return "rows of " + std::to_string(size) + " elements: it takes multiples of 8 from 8 to 2^31 - 8";
  const int64_t pairs = query.inputs[Op::kPlaces].numel();
  if (x.numel() <= kFewRows * last_size(x)) return "few rows, which seldom share an expert";
  if (pairs > kMaxPairs) return "more than " + std::to_string(kMaxPairs) + " pairs";
  return std::nullopt;
}

}  // namespace genesis::cuda
