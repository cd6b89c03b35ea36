// Few blocks stay for the whole product, so x is quantized to bytes once per multiprocessor instead of once for every
// few rows of weights. Each warp streams its own rows through its own ring in shared memory, filled by bulk copies:
// the first round starts while the kernels ahead still run, and warps never wait for each other. A block takes less
// than half of the shared memory, so that the next kernel's blocks can start to fill theirs before these have ended.
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/gemm/few_rows/quantized_gemv_kit.h"
#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm/few_rows/row_result.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxStages = 8;
constexpr int64_t kWholeScales = 256;  // elements of k whose scales take 16 bytes

// The layout in shared memory. A RowSplit numbers groups of rows instead of blocks.
struct StreamPlan {
  int parts = 1;        // number of chunks of k
  int part_values = 0;  // elements of k per chunk; the last one may have fewer
  int stages = 0;       // stages of a warp's ring
  int row_bytes = 0;    // bytes of a row's quants in a chunk
  int scale_bytes = 0;  // bytes of a row's scales in a chunk
  int stage_bytes = 0;  // for all rows that a warp has at once
  int ring_at = 0;      // offset in shared memory
  int shared_bytes = 0;
};

// A group of rows: kRows of a layer; for a swiglu half as many results, first gate's rows, then up's.
struct RowGroup {
  int which;    // layer
  int64_t row;  // the first row, in each weight
  int count;    // rows of each weight; fewer at the end
};

template <int kRows>
__device__ __forceinline__ RowGroup group_at(const RowProducts& p, const RowSplit& split, int64_t group) {
  const int which = split.layer_of(p, p.swiglu, group);
  const int results = p.swiglu ? kRows / 2 : kRows;
  const int64_t row = (group - split.first[which]) * results;
  return {which, row, static_cast<int>(min(int64_t{results}, p.layer[which].n - row))};
}

// The ring of one warp. A stage holds one chunk of each row of a group: first their quants, then their scales.
template <WeightFormat kFormat, int kRows>
class WarpRing {
 public:
  __device__ WarpRing(const RowProducts& p, const RowSplit& split, const StreamPlan& plan,
                      unsigned char* stages, uint64_t* full)
      : p_(p),
        split_(split),
        plan_(plan),
        stages_(stages),
        full_(full),
        group_(first_group()),
        policy_(evict_first_policy()) {}

  static __device__ __forceinline__ int64_t first_group() {
    return static_cast<int64_t>(threadIdx.x) / kLanes * gridDim.x + blockIdx.x;
  }
  static __device__ __forceinline__ int64_t group_step() {
    return static_cast<int64_t>(blockDim.x) / kLanes * gridDim.x;
  }

  // Starts to copy the next chunk, if there is one, into a stage that is no longer read.
  __device__ __forceinline__ void ask() {
    if (group_ >= split_.blocks) return;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const RowGroup group = group_at<kRows>(p_, split_, group_);
    const int begin = part_ * plan_.part_values,
              values = static_cast<int>(min(int64_t{plan_.part_values}, p_.k - begin));
    const int quant_bytes = bytes_of(values), scale_bytes = values / 16;
    const int rows = p_.swiglu ? 2 * group.count : group.count;
    if (lane == 0) expect_bytes(full_ + filling_, static_cast<uint32_t>(rows * (quant_bytes + scale_bytes)));
    __syncwarp();
    // Each lane copies one row's quants or scales; whole rows are contiguous, so one copy brings all of them.
    const int results = p_.swiglu ? kRows / 2 : kRows, place = lane % kRows, row = place % results;
    const bool whole = plan_.parts == 1;
    if (lane < 2 * kRows && row < (whole ? 1 : group.count)) {
      const RowProducts::Layer& layer = p_.layer[p_.swiglu ? place / results : group.which];
      const int64_t from_row = group.row + row;
      const auto copies = static_cast<uint32_t>(whole ? group.count : 1);
      unsigned char* to = stages_ + filling_ * stage_bytes();
      if (lane < kRows)
        stream_to_shared(to + place * plan_.row_bytes,
                         static_cast<const char*>(layer.weight) + from_row * bytes_of(p_.k) + bytes_of(begin),
                         copies * quant_bytes, full_ + filling_, policy_);
      else
        stream_to_shared(to + kRows * plan_.row_bytes + place * plan_.scale_bytes,
                         static_cast<const char*>(layer.scales) + from_row * (p_.k / 16) + begin / 16,
                         copies * scale_bytes, full_ + filling_, policy_);
    }
    if (++filling_ == plan_.stages) filling_ = 0;
    if (++part_ < plan_.parts) return;
    part_ = 0;
    group_ += group_step();
  }

  // Waits until the oldest requested chunk has arrived, and returns it.
  __device__ __forceinline__ const unsigned char* wait() {
    wait_for_phase(full_ + reading_, phase_);
    return stages_ + reading_ * stage_bytes();
  }
  // Marks the chunk that wait() returned as read and starts refilling its stage.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (++reading_ == plan_.stages) reading_ = 0, phase_ ^= 1;
    ask();
  }

 private:
  static __device__ __forceinline__ int64_t bytes_of(int64_t values) {
    return has_four_bits(kFormat) ? values / 2 : values;
  }
  static __device__ __forceinline__ int bytes_of(int values) {
    return has_four_bits(kFormat) ? values / 2 : values;
  }
  __device__ __forceinline__ int stage_bytes() const { return kRows * (plan_.row_bytes + plan_.scale_bytes); }

  const RowProducts& p_;
  const RowSplit& split_;
  const StreamPlan& plan_;
  unsigned char* stages_;
  uint64_t* full_;
  int64_t group_;
  int part_ = 0, filling_ = 0, reading_ = 0;
  uint32_t phase_ = 0;
  uint64_t policy_;
};

// Adds to sums[m * kRows + r] row r of the stage times row m of x, over `values` elements from `begin` on.
template <WeightFormat kFormat, int M, int kRows>
__device__ __forceinline__ void multiply_part(const RowProducts& p, const StreamPlan& plan,
                                              const unsigned char* stage, const int (&places)[kRows],
                                              const SharedX& x, int begin, int values,
                                              float (&sums)[M * kRows]) {
  constexpr int kEach = kValuesOfPack<kFormat>;
  const unsigned char* scales = stage + kRows * plan.row_bytes;
#pragma unroll 2
  for (int pack = static_cast<int>(threadIdx.x) % kLanes; pack < values / kEach; pack += kLanes) {
    Words w[kRows];
    WeightBlock<kFormat> of_w[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = reinterpret_cast<const Words*>(stage + places[r] * plan.row_bytes)[pack];
      of_w[r] = WeightBlock<kFormat>(reinterpret_cast<const uint16_t*>(
          scales + places[r] * plan.scale_bytes)[pack * kEach / static_cast<int>(kQuantBlock)]);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (M > 1 && m >= static_cast<int>(p.m)) break;
      Words bytes[kEach / 16];
      ByteBlock block;
      x.read<kFormat>(m, begin + pack * kEach, bytes, block);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sums[m * kRows + r] = fmaf(dot_block<kFormat>(w[r], bytes, block, of_w[r]),
                                   of_w[r].scale * block.scale, sums[m * kRows + r]);
    }
  }
}

// Computes the sums and results of each of the warp's groups of rows, as their chunks arrive.
template <class T, WeightFormat kFormat, int M, int kRows>
__device__ __forceinline__ void multiply_groups(const RowProducts& p, const RowSplit& split,
                                                const StreamPlan& plan, WarpRing<kFormat, kRows>& ring,
                                                const SharedX& x, const XSquares& squares) {
  using Ring = WarpRing<kFormat, kRows>;
  constexpr int kSums = M * kRows, kLanesOfSum = kLanes / kSums;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, sum = lane / kLanesOfSum, m = sum / kRows,
            r = sum % kRows, results = p.swiglu ? kRows / 2 : kRows;
  const float scale = scale_of_row<M>(p, squares, m);
#pragma unroll 1
  for (int64_t at = Ring::first_group(); at < split.blocks; at += Ring::group_step()) {
    const RowGroup group = group_at<kRows>(p, split, at);
    const RowProducts::Layer& layer = p.layer[group.which];
    RowResult<T> result;
    if (lane % kLanesOfSum == 0 && m < static_cast<int>(p.m) && r < group.count)
      result.read(p, layer, p.swiglu, m, group.row + r);
    int places[kRows];  // missing rows repeat the last one
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      places[i] = p.swiglu ? i / (kRows / 2) * results + min(i % (kRows / 2), group.count - 1)
                           : min(i, group.count - 1);
    float sums[kSums] = {};
#pragma unroll 1
    for (int part = 0; part < plan.parts; ++part) {
      const int begin = part * plan.part_values;
      multiply_part<kFormat, M, kRows>(p, plan, ring.wait(), places, x, begin,
                                       static_cast<int>(min(int64_t{plan.part_values}, p.k - begin)), sums);
      ring.release();
    }
    const float own = sum_by_lanes(sums) * scale, up = from_above(own, kRows / 2 * kLanesOfSum);
    if (result.at >= 0) result.finish(p, layer, p.swiglu, own, up);
  }
}

template <class T, WeightFormat kFormat, int M, int kRows>
__global__ void __launch_bounds__(kMaxGemvWarps* kLanes, 1)
    streamed_gemv(const __grid_constant__ RowProducts p, const __grid_constant__ RowSplit split,
                  const __grid_constant__ StreamPlan plan) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) uint64_t full[kMaxGemvWarps][kMaxStages];
  __shared__ XSquares squares;
  const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane < plan.stages) {
    init_barrier(&full[warp][lane], 1);
    let_copies_see_barriers();
  }
  __syncwarp();
  WarpRing<kFormat, kRows> ring(
      p, split, plan,
      shared + plan.ring_at + warp * plan.stages * kRows * (plan.row_bytes + plan.scale_bytes), full[warp]);
  const auto fill = [&] {
    for (int i = 0; i < plan.stages; ++i) ring.ask();
  };
  if (p.independent) fill();
  pdl_launch_dependents();
  pdl_wait();
  if (!p.independent) fill();
  const SharedX bytes(shared, p.m, p.k);
  bring_x<T, M>(p, split.aligned, bytes, squares);
  __syncthreads();
  multiply_groups<T, kFormat, M, kRows>(p, split, plan, ring, bytes, squares);
}

// Returns whether all copies start and end at multiples of 16 bytes.
bool can_copy(const RowProducts& p, const StreamPlan& plan, int results) {
  if (plan.parts > 1) return p.k % kWholeScales == 0;
  const int64_t scales = p.k / 16;  // bytes per row
  for (int i = 0; i < p.layers; ++i)
    if (results * scales % 16 != 0 || p.layer[i].n % results * scales % 16 != 0) return false;
  return true;
}

constexpr int kOwnShared = 2 << 10;  // the kernel's static shared memory

int results_of(const RowProducts& p, int rows) { return p.swiglu ? rows / 2 : rows; }

// Returns why the kernel cannot run; sets `plan` if the text is empty.
std::string plan_stream(const RowProducts& p, int rows, const WeightStream& stream, int shared_limit,
                        StreamPlan& plan) {
  const bool four_bits = has_four_bits(p.format);
  const int64_t most = int64_t{stream.part_bytes} * (four_bits ? 2 : 1) / kWholeScales * kWholeScales;
  const bool cut = p.k > most && p.k % kWholeScales == 0;
  plan.part_values = static_cast<int>(cut ? most : p.k);
  plan.parts = static_cast<int>(blocks_for(p.k, plan.part_values));
  if (!can_copy(p, plan, results_of(p, rows)))
    return "scales that do not begin and end at multiples of 16 bytes";
  plan.row_bytes = plan.part_values / (four_bits ? 2 : 1);
  plan.scale_bytes = plan.part_values / 16;
  plan.stage_bytes = rows * (plan.row_bytes + plan.scale_bytes);
  plan.stages = std::min(kMaxStages, stream.ring_bytes / (stream.warps * plan.stage_bytes));
  if (plan.stages < 2) return "rows of weights of which shared memory does not hold two ahead";
  plan.ring_at = static_cast<int>(blocks_for(byte_rows_bytes(p.m, p.k), 128) * 128);
  plan.shared_bytes = plan.ring_at + plan.stages * stream.warps * plan.stage_bytes;
  if (plan.shared_bytes + kOwnShared > shared_limit)
    return "rows of x that leave weights no room in shared memory";
  return "";
}

template <class T, WeightFormat kFormat, int M, int kRows>
bool start_kernel(const RowProducts& p, const Launch& launch, const WeightStream& stream) {
  StreamPlan plan;
  if (!plan_stream(p, kRows, stream, shared_bytes_limit(), plan).empty()) return false;
  RowSplit split(p, results_of(p, kRows));
  split.aligned = true;
  if (split.blocks == 0) return true;
  const int shared = plan.shared_bytes;
  const auto kernel = streamed_gemv<T, kFormat, M, kRows>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  Launch sharing = launch;
  sharing.shares_memory = true;
  const int64_t blocks = std::min<int64_t>(int64_t{launch.multiprocessors} * stream.blocks, split.blocks);
  start_with_pdl(sharing, kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(stream.warps * kLanes),
                 static_cast<size_t>(shared), p, split, plan);
  return true;
}

template <class T, WeightFormat kFormat, int kRows>
bool start_rows(const RowProducts& p, const Launch& launch, const WeightStream& stream) {
  if (p.m <= 1) return start_kernel<T, kFormat, 1, kRows>(p, launch, stream);
  if (p.m <= 2) return start_kernel<T, kFormat, 2, kRows>(p, launch, stream);
  if (p.m <= 4) return start_kernel<T, kFormat, 4, kRows>(p, launch, stream);
  return start_kernel<T, kFormat, 8, kRows>(p, launch, stream);
}

template <class T, int kRows>
bool start_format(const RowProducts& p, const Launch& launch, const WeightStream& stream) {
  if (p.format == WeightFormat::kQ8) return start_rows<T, WeightFormat::kQ8, kRows>(p, launch, stream);
  if (p.format == WeightFormat::kQ4) return start_rows<T, WeightFormat::kQ4, kRows>(p, launch, stream);
  return start_rows<T, WeightFormat::kQ4m, kRows>(p, launch, stream);
}

}  // namespace

std::string why_no_streamed_gemv(const RowProducts& p) {
  constexpr int kSharedOfHopper = 227 << 10;
  if (std::string why = why_no_quantized_gemv(p); !why.empty()) return why;
  StreamPlan plan;
  return plan_stream(p, WeightStream{}.rows, {}, kSharedOfHopper, plan);
}

bool start_streamed_gemv(const RowProducts& p, const Launch& launch, const WeightStream& stream) {
  if (!launch.can_use_pdl || !begins_at_eights(p)) return false;  // older chips
  if (p.dtype == DType::bf16)
    return stream.rows == 2 ? start_format<__nv_bfloat16, 2>(p, launch, stream)
                            : start_format<__nv_bfloat16, 4>(p, launch, stream);
  if (p.dtype == DType::f16) return start_format<__half, 4>(p, launch, stream);
  return start_format<float, 4>(p, launch, stream);
}

}  // namespace genesis::cuda
