#include "backends/cuda/step_chain.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "backends/cuda/bulk_copy.h"
#include "backends/cuda/chain_attention.h"
#include "backends/cuda/chain_kit.h"
#include "backends/cuda/chain_product.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/turn_angle.h"

namespace genesis::cuda {
namespace {

// Where in the ring the next chunk goes. Chunks keep the order in which they are asked for, and none is in
// two pieces: where the end is too near, the room before it is left empty.
struct ChunkPlaces {
  const ChainProgram& program;
  ChainShared& shared;
  uint32_t next = 0, tail = 0, landed = 0;  // chunks: to be asked for, still in the ring, under way
  uint32_t head = 0, used = 0;              // bytes

  // Waits for room, and until fewer than `ahead` chunks are under way; tells those who multiply where it is.
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
    __syncwarp();  // all have read what the place held before
    if (threadIdx.x % kLanes == 0) {
      shared.takes[next % kChunks] = takes;
      shared.at[next % kChunks] = at;
    }
    return at;
  }
  __device__ uint64_t* full() const { return &shared.full[next % kChunks]; }
};

// Weights, in the order in which the other warps want them: a lane asks for a row of a chunk.
__device__ void feed_ring(const ChainProgram& program, ChainShared& shared, const ChainPlaces& places) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const uint64_t policy = evict_first_policy();
  ChunkPlaces ring{program, shared};
#pragma unroll 1
  for (int i = 0; i < program.count; ++i) {
    const ChainFeed f = places.feeds[i];
    if (blockIdx.x == 0 && lane == 0 && f.first_unit < f.end_unit) program.place->fed = i + 1;
    const int units_of_chunk = f.swiglu ? kChunkRows / 4 : kChunkRows / 2, blocks = f.k / kChainBlock;
#pragma unroll 1
    for (int unit = f.first_unit; unit < f.end_unit; unit += units_of_chunk) {
      const int outputs = 2 * min(units_of_chunk, f.end_unit - unit), rows = f.swiglu ? 2 * outputs : outputs;
      const auto* row = static_cast<const ChainElement*>(
          f.weight_row(2 * unit, min(lane, rows - 1), outputs, sizeof(ChainElement)));
#pragma unroll 1
      for (int part = 0; part < 1 << f.log_parts; ++part, ++ring.next) {
        const int begin = part * blocks >> f.log_parts, end = (part + 1) * blocks >> f.log_parts;
        const auto copied = static_cast<uint32_t>((end - begin) * kBlockBytes);
        const uint32_t at = ring.take(static_cast<uint32_t>(rows * f.row_bytes), f.ahead);
        if (lane == 0) expect_bytes(ring.full(), rows * copied);
        __syncwarp();
        if (lane < rows)
          stream_to_shared(places.ring + at + lane * f.row_bytes, row + begin * kChainBlock, copied,
                           ring.full(), policy);
      }
    }
  }
}

// Into the second-level cache, where they stay while weights stream through: what steps read besides weights.
__device__ void ask_for_small_tensors(const ChainProgram& program) {
  constexpr int kLine = 128;
  const auto ask = [](const void* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += kLine)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + at));
  };
  for (int i = threadIdx.x; i < program.count * (1 + ChainStep::kMostLayers); i += kChainThreads) {
    const ChainStep& s = program.steps[i / (1 + ChainStep::kMostLayers)];
    const int layer = i % (1 + ChainStep::kMostLayers) - 1;
    if (static_cast<int>(blockIdx.x) != i % static_cast<int>(gridDim.x) || s.kind != ChainStep::kProduct)
      continue;
    if (layer < 0) {
      if (s.norm) ask(s.norm, s.k * int64_t{sizeof(ChainElement)});
    } else if (layer < s.layers && s.layer[layer].bias) {
      ask(s.layer[layer].bias, s.layer[layer].n * int64_t{sizeof(ChainElement)});
    }
  }
}

__device__ void find_turns(const ChainProgram& program, ChainShared& shared, int start) {
  const int pairs = program.size / 2;
  for (int i = threadIdx.x; i < pairs; i += kChainThreads)
    sine_and_cosine(start * pow(program.theta, -2.0 * i / program.size), shared.sines[i], shared.cosines[i]);
}

// The last block to be done makes the number of the next run.
__device__ void count_run(uint32_t* run) {
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(run + 1, 1u) + 1 != gridDim.x) return;
  run[1] = 0;
  __threadfence();
  run[0] += 1;
}

template <int kSize>
__global__ void __launch_bounds__(kChainThreads + kLanes, 1)
    run_chain(const __grid_constant__ ChainProgram program) {
  extern __shared__ __align__(128) unsigned char memory[];
  ChainShared& shared = *reinterpret_cast<ChainShared*>(memory);
  const ChainPlaces places(program, memory);
  if (threadIdx.x == 0) shared.zeros = {0, 0, 0, 0};
  for (int i = threadIdx.x; i < program.count; i += blockDim.x) places.feeds[i] = ChainFeed(program.steps[i]);
  if (threadIdx.x < kChunks) {
    init_barrier(&shared.full[threadIdx.x], 1);
    init_barrier(&shared.empty[threadIdx.x], kChainWarps);
  }
  StepFeed next_step(program, shared, 0);
  next_step.put();
  let_copies_see_barriers();
  __syncthreads();
  let_successors_start();
  if (threadIdx.x >= kChainThreads) return feed_ring(program, shared, places);

  ask_for_small_tensors(program);
  wait_for_predecessors();
  ChainRun run{.tags = *program.run * kChainTags};
  if (program.positions > 0) {
    const int64_t given = *program.start;
    run.start = static_cast<int>(given < 0 ? 0 : given >= program.positions ? program.positions - 1 : given);
    if (given != run.start && blockIdx.x == 0 && threadIdx.x == 0) program.fault(given, program.positions);
    find_turns(program, shared, run.start);
  }
  sync_chain();
  for (int i = 0; i < program.count; ++i) {
    const ChainStep& step = shared.steps[i % kStepPlaces];
    if (blockIdx.x == 0 && threadIdx.x == 0) program.place->computed = i + 1;  // nobody waits for the bus
    StepFeed coming(program, shared, i + 1);
    if (step.kind == ChainStep::kAttention)
      attend<kSize>(step, places.feeds[i], shared, run, coming);
    else
      multiply(step, places.feeds[i], shared, places, run, coming);
  }
  count_run(program.run);
}

int ring_bytes(const ChainProgram& program, int shared) {
  const ChainPlaces places(program, nullptr);
  return (shared - static_cast<int>(places.ring - static_cast<unsigned char*>(nullptr))) / 128 * 128;
}

template <int kSize>
void start_kernel(const Launch& launch, ChainProgram program) {
  const int shared = shared_bytes_limit();
  program.ring_bytes = ring_bytes(program, shared);
  const auto kernel = run_chain<kSize>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(launch.multiprocessors);
  config.blockDim = kChainThreads + kLanes;
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = launch.early ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, program);  // the runner asks for errors
}

}  // namespace

void plan_product(ChainStep& step, int blocks) {
  constexpr int kChunkBytes = 30000;    // better asked for one by one, but not in rows too short to copy
  constexpr int kMostBytes = 64 << 10;  // where k can be cut into so little
  constexpr int kAheadOfLong = 3;
  constexpr int kLongLink = 32;  // chunks of a block; memory must not idle between them
  step.units = step.n / 2;
  const int units_of_chunk = step.swiglu ? kChunkRows / 4 : kChunkRows / 2,
            units = (step.units + blocks - 1) / blocks,
            chunks = (units + units_of_chunk - 1) / units_of_chunk, k_blocks = step.k / kChainBlock;
  const int64_t bytes = int64_t{(step.swiglu ? 4 : 2) * std::min(units, units_of_chunk)} * step.k * 2;
  // Warps share a chunk so that the one with most to do has as little as can be.
  int least = INT_MAX;
  for (int log = 0; 1 << log <= std::min(kChainWarps, k_blocks); ++log) {
    const int groups = kChainWarps >> log;
    const int most = ((k_blocks + (1 << log) - 1) >> log) * ((chunks + groups - 1) / groups);
    if (most <= least || (log > 0 && bytes >> (log - 1) > kMostBytes)) least = most, step.log_slices = log;
  }
  step.log_parts = 0;
  while (step.log_parts < step.log_slices && bytes >> step.log_parts > kChunkBytes) ++step.log_parts;
  step.ahead = chunks << step.log_parts >= kLongLink ? kAheadOfLong : 1;
}

int chain_splits(int heads, int blocks) { return std::clamp(blocks / heads, 0, kMostChainSplits); }

int64_t split_words(int heads, int size, int blocks) {
  return int64_t{heads} * chain_splits(heads, blocks) * (size + 2);
}

bool ring_takes(const ChainProgram& program, const ChainStep& step) {
  if (step.kind != ChainStep::kProduct) return true;
  const int64_t chunk = int64_t{kChunkRows} * row_bytes_in_ring(step.k, step.log_parts);
  return 2 * chunk <= ring_bytes(program, shared_bytes_limit());
}

bool can_start_chains() {
  int cooperative = 0;
  check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, current_device()),
        "asking for cooperative launches");
  return cooperative != 0 && code_can_start_early() && shared_bytes_limit() >= kLeastSharedBytes;
}

void start_chain(const Launch& launch, const ChainProgram& program) {
  if (program.size == 128) return start_kernel<128>(launch, program);
  start_kernel<64>(launch, program);
}

}  // namespace genesis::cuda
