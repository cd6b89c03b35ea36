#include "backends/cuda/decode/megakernel.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>

#include "backends/cuda/decode/attention_instruction.h"
#include "backends/cuda/decode/megakernel_kit.h"
#include "backends/cuda/decode/product_instruction.h"
#include "backends/cuda/decode/token_route.h"
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/rotation_angle.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

// Places the next chunk in the ring. Chunks stay in the order in which they are requested, and none is split: if a
// chunk does not fit before the end of the ring, the rest of the ring stays empty.
struct ChunkRing {
  const MegakernelProgram& program;
  MegakernelShared& shared;
  uint32_t next = 0, tail = 0, landed = 0;  // chunks: next to request, oldest in the ring, oldest in flight
  uint32_t head = 0, used = 0;              // bytes

  // Waits for space, and until fewer than `ahead` chunks are in flight; records for the consumers where the chunk is.
  __device__ __forceinline__ uint32_t take(uint32_t bytes, int ahead) {
    const auto ring = static_cast<uint32_t>(program.ring_bytes);
    const bool wraps = head + bytes > ring;
    const uint32_t takes = bytes + (wraps ? ring - head : 0);
    for (; next - tail >= kChunks || used + takes > ring; ++tail) {
      wait_for_phase(&shared.empty[tail % kChunks], tail / kChunks & 1);
      used -= shared.takes[tail % kChunks];
    }
    landed = max(landed, tail);
    for (; next - landed >= static_cast<uint32_t>(ahead); ++landed)
      wait_for_phase(&shared.full[landed % kChunks], landed / kChunks & 1);
    const uint32_t at = wraps ? 0 : head;
    head = at + bytes;
    used += takes;
    __syncwarp();  // until all lanes have read the previous content
    if (threadIdx.x % kLanes == 0) {
      shared.takes[next % kChunks] = takes;
      shared.at[next % kChunks] = at;
    }
    return at;
  }
  __device__ uint64_t* full() const { return &shared.full[next % kChunks]; }
};

// Streams the weights in the order in which the consumers need them. Each lane copies one row of a chunk; the lanes
// after kChunkRows copy the rows' scales.
__device__ void run_producer(const MegakernelProgram& program, MegakernelShared& shared,
                             const SharedLayout& layout) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const uint64_t policy = evict_first_policy();
  ChunkRing ring{program, shared};
  TokenRoute route;
#pragma unroll 1
  for (int i = 0; i < program.count; ++i) {
    const BlockShare f = layout.shares[i];
    if (f.chosen > 0 && !f.weighs) route.choose(program, layout.shares, i, shared);
    if (blockIdx.x == 0 && lane == 0 && f.first_unit < f.end_unit) program.counter->fed = i + 1;
    const DepthRanges ranges = f.ranges();
    const int units_of_chunk = f.swiglu ? kChunkRows / 4 : kChunkRows / 2, each = ranges.pairs ? 2 : 1;
    const bool of_scales = lane >= kChunkRows;
    const int block_bytes = of_scales ? each * ranges.scale_bytes : kBlockBytes;
#pragma unroll 1
    for (int unit = f.first_unit; unit < f.end_unit; unit += units_of_chunk) {
      const int outputs = 2 * min(units_of_chunk, f.end_unit - unit), rows = f.swiglu ? 2 * outputs : outputs;
      const int row = of_scales ? (lane - kChunkRows) * each : lane;
      const bool asks = row < rows && block_bytes > 0;
      const int bytes = of_scales ? ranges.scale_bytes : kBlockBytes, depth = f.blocks_of_row(ranges);
      const char* from =
          f.weight_row(2 * unit, min(row, rows - 1), outputs, of_scales, depth * bytes, route.expert);
      const int count = f.whole ? rows_at_once(from, asks, depth * bytes) : asks;
      const int to = of_scales ? rows * f.row_bytes + row * f.scale_row_bytes : row * f.row_bytes;
#pragma unroll 1
      for (int range = 0; range < 1 << f.log_ranges; ++range, ++ring.next) {
        const int begin = ranges.begin_of(range, f.log_ranges),
                  blocks = ranges.begin_of(range + 1, f.log_ranges) - begin;
        const uint32_t at =
            ring.take(static_cast<uint32_t>(rows * (f.row_bytes + f.scale_row_bytes)), f.ahead);
        if (lane == 0)
          expect_bytes(ring.full(),
                       static_cast<uint32_t>(rows * blocks * (kBlockBytes + ranges.scale_bytes)));
        __syncwarp();
        const int64_t skipped =
            f.weighs ? int64_t{from_lane(route.expert, range)} * f.expert_rows * depth : begin;
        if (count > 0)
          stream_to_shared(layout.ring + at + to, from + skipped * bytes,
                           static_cast<uint32_t>(count * blocks * block_bytes), ring.full(), policy);
      }
    }
  }
}

// Prefetches all other tensors that instructions read into the L2 cache, where they stay while weights stream
// through.
__device__ void ask_for_small_tensors(const MegakernelProgram& program) {
  constexpr int kLine = 128;
  const auto ask = [](const void* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += kLine)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + at));
  };
  for (int i = threadIdx.x; i < program.count * (1 + Instruction::kMaxLayers); i += kMegakernelThreads) {
    const Instruction& s = program.instructions[i / (1 + Instruction::kMaxLayers)];
    const int layer = i % (1 + Instruction::kMaxLayers) - 1;
    if (static_cast<int>(blockIdx.x) != i % static_cast<int>(gridDim.x) || s.kind != Instruction::kProduct)
      continue;
    if (layer < 0) {
      if (s.norm) ask(s.norm, s.k * int64_t{sizeof(Element)});
    } else if (layer < s.layers && s.layer[layer].bias) {
      ask(s.layer[layer].bias, s.layer[layer].n * int64_t{sizeof(Element)});
    }
  }
}

__device__ void find_rotations(const MegakernelProgram& program, MegakernelShared& shared, int start) {
  const int pairs = program.size / 2;
  for (int i = threadIdx.x; i < pairs; i += kMegakernelThreads) {
    const double frequency =
        program.frequencies ? program.frequencies[i] : pow(program.theta, -2.0 * i / program.size);
    sine_and_cosine(start * frequency, shared.sines[i], shared.cosines[i]);
  }
}

// Counts the blocks that are done; the last one sets the number of the next run.
__device__ void count_run(uint32_t* run) {
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(run + 1, 1u) + 1 != gridDim.x) return;
  run[1] = 0;
  __threadfence();
  run[0] += 1;
}

template <int kSize>
__global__ void __launch_bounds__(kMegakernelThreads + kLanes, 1)
    run_megakernel(const __grid_constant__ MegakernelProgram program) {
  extern __shared__ __align__(128) unsigned char memory[];
  MegakernelShared& shared = *reinterpret_cast<MegakernelShared*>(memory);
  const SharedLayout layout(program, memory);
  if (threadIdx.x == 0) shared.zeros = {0, 0, 0, 0}, shared.routed = 0;
  for (int i = threadIdx.x; i < program.count; i += blockDim.x)
    layout.shares[i] = BlockShare(program.instructions[i]);
  if (threadIdx.x < kChunks) {
    init_barrier(&shared.full[threadIdx.x], 1);
    init_barrier(&shared.empty[threadIdx.x], kConsumerWarps);
  }
  NextInstruction next(program, shared, 0);
  next.put();
  let_copies_see_barriers();
  __syncthreads();
  pdl_launch_dependents();
  if (threadIdx.x >= kMegakernelThreads) return run_producer(program, shared, layout);

  ask_for_small_tensors(program);
  pdl_wait();
  MegakernelRun run{.tags = *program.run * kTags};
  if (program.positions > 0) {
    const int64_t given = *program.start;
    run.start = static_cast<int>(given < 0 ? 0 : given >= program.positions ? program.positions - 1 : given);
    if (given != run.start && blockIdx.x == 0 && threadIdx.x == 0) program.fault(given, program.positions);
    find_rotations(program, shared, run.start);
  }
  sync_consumers();
  for (int i = 0; i < program.count; ++i) {
    const Instruction& step = shared.instructions[i % kInstructionStages];
    if (blockIdx.x == 0 && threadIdx.x == 0) program.counter->computed = i + 1;  // posted: no thread waits
    run.instruction = i;
    NextInstruction coming(program, shared, i + 1);
    if (i + 1 < program.count && layout.shares[i + 1].head >= 0)
      ask_for_keys<kSize>(program.instructions[i + 1], layout.shares[i + 1], run.start);
    if (step.kind == Instruction::kAttention)
      attend<kSize>(step, layout.shares[i], shared, run, coming);
    else
      multiply(step, layout.shares[i], shared, layout, run, coming);
  }
  count_run(program.run);
}

int ring_bytes(const MegakernelProgram& program, int shared) {
  const SharedLayout layout(program, nullptr);
  return (shared - static_cast<int>(layout.ring - static_cast<unsigned char*>(nullptr))) / 128 * 128;
}

template <int kSize>
void start_kernel(const Launch& launch, MegakernelProgram program) {
  const int shared = shared_bytes_limit();
  program.ring_bytes = ring_bytes(program, shared);
  const auto kernel = run_megakernel<kSize>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(launch.multiprocessors);
  config.blockDim = kMegakernelThreads + kLanes;
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = launch.early ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, program);  // the runner checks for errors
}

// Returns the rows of the product's largest chunk: 16 where each block has enough of them.
int rows_of_chunk(const Instruction& step, int blocks) {
  const int units = (step.units + blocks - 1) / blocks;
  return step.swiglu ? 4 * std::min(units, kChunkRows / 4) : 2 * std::min(units, kChunkRows / 2);
}

}  // namespace

// Plans the copies of a program with mixtures, `bytes` for the rows of a chunk. The copy engine takes some 100 cycles for each copy,
// so as many rows as possible share one.
static void plan_large_copies(Instruction& step, int64_t bytes, int chunks) {
  constexpr int64_t kUnderWay = 64000;
  constexpr int kManyChunks = 16;
  if (step.weighs) {  // a range is an expert
    step.log_ranges = std::countr_zero(static_cast<uint32_t>(step.chosen));
    step.log_slices = std::countr_zero(static_cast<uint32_t>(kConsumerWarps));
  }
  const bool are_many = step.chosen > 0 || chunks << step.log_ranges >= kManyChunks;
  const int64_t chunk = std::max<int64_t>(bytes >> step.log_ranges, 1);
  step.ahead = static_cast<int32_t>(std::clamp<int64_t>(kUnderWay / chunk, are_many ? 2 : 1, kMaxChosen));
  step.whole =
      (step.log_ranges == 0 || step.weighs) && !DepthRanges(step.format, step.k, step.log_ranges).pairs;
}

void plan_product(Instruction& step, int blocks, bool large_copies) {
  // Chunks of about this size are better requested one by one, unless rows become too short to copy.
  constexpr int kChunkBytes = 30000, kLargeChunkBytes = 66000;
  constexpr int kMaxBytes = 64 << 10;  // if k can be split so far
  constexpr int kAheadOfLong = 3;
  constexpr int kLongInstruction = 32;  // chunks of a block; memory must not idle between them
  step.units = step.n / 2;
  const int units_of_chunk = step.swiglu ? kChunkRows / 4 : kChunkRows / 2,
            units = (step.units + blocks - 1) / blocks,
            chunks = (units + units_of_chunk - 1) / units_of_chunk;
  const bool quantized = step.format != WeightFormat::kPlain;
  const DepthRanges whole(step.format, step.k, 0), half(step.format, step.k, 1);
  const bool can_split = half.blocks % half.grain == 0;
  const int k_blocks = can_split ? half.blocks / half.grain : half.blocks;
  const int64_t bytes = int64_t{rows_of_chunk(step, blocks)} * whole.blocks * kBlockBytes;
  // Warps share a chunk such that the busiest warp has as little to do as possible.
  int least = INT_MAX;
  for (int log = 0; 1 << log <= std::min(kConsumerWarps, k_blocks); ++log) {
    const int groups = kConsumerWarps >> log;
    const int most = ((k_blocks + (1 << log) - 1) >> log) * ((chunks + groups - 1) / groups);
    if (most <= least || (log > 0 && bytes >> (log - 1) > kMaxBytes)) least = most, step.log_slices = log;
  }
  step.log_ranges = 0;
  while (can_split && step.log_ranges < step.log_slices &&
         bytes >> step.log_ranges > (large_copies ? kLargeChunkBytes : kChunkBytes))
    ++step.log_ranges;
  step.ahead = chunks << step.log_ranges >= kLongInstruction ? kAheadOfLong : 1;
  // Rows of few bytes make small chunks: more of them are in flight, so that the bytes in flight stay the same.
  if (quantized)
    step.ahead *= static_cast<int>(
        std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(bytes >> step.log_ranges, 1), 1, 4));
  if (large_copies) plan_large_copies(step, bytes, chunks);
}

// Returns the bytes of x in shared memory: quantized, or bf16, which if it was scaled is followed by the rounding errors.
int64_t vector_bytes(WeightFormat format, int64_t k, bool is_scaled) {
  if (format != WeightFormat::kPlain) return byte_rows_bytes(1, k);
  return k * int64_t{sizeof(Element)} * (is_scaled ? 2 : 1);
}

int attention_splits(int heads, int blocks) { return std::clamp(blocks / heads, 0, kMaxAttentionSplits); }

int64_t split_words(int heads, int size, int blocks) {
  return int64_t{heads} * attention_splits(heads, blocks) * (size + 2);
}

// A chunk is not split at the end of the ring. If it wraps, it also takes what is left there, less than its own bytes: so a chunk of
// half of the ring always has space once the ring is empty.
bool ring_takes(const MegakernelProgram& program, const Instruction& step, int blocks, int shared) {
  if (step.kind != Instruction::kProduct) return true;
  const DepthRanges ranges(step.format, step.k, step.log_ranges);
  const int64_t row = ranges.row_bytes() + ranges.scale_row_bytes();  // `whole` products need less
  return 2 * rows_of_chunk(step, blocks) * row <= ring_bytes(program, shared);
}

bool can_start_megakernels() {
  int cooperative = 0;
  check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, current_device()),
        "asking for cooperative launches");
  return cooperative != 0 && code_has_pdl() && shared_bytes_limit() >= kMinSharedBytes;
}

void start_megakernel(const Launch& launch, const MegakernelProgram& program) {
  if (program.size == 128) return start_kernel<128>(launch, program);
  start_kernel<64>(launch, program);
}

}  // namespace genesis::cuda
