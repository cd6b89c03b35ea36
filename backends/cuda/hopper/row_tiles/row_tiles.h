// A product of up to 256 rows of x with weights [n, k] in bf16 by the tensor cores of Hopper chips. A block has kN rows of
// weights times up to 64 rows of x for each of its warpgroups. A producer warp fills a ring of slices, 64 deep, by TMA
// copies; weights come before x is ready. No blocks share k: a cluster that does starts and ends microseconds later.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/gemm/few_rows/row_result.h"
#include "backends/cuda/hopper/row_tiles/row_wgmma.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda::row_tiles {

using Bf16 = __nv_bfloat16;

constexpr int kDepth = 64, kRowBytes = 2 * kDepth, kGroupRows = 64;  // kGroupRows: rows of x of a warpgroup
constexpr int kMaxStages = 16, kAlignment = 1024;

template <int kGroups_, int kN_, bool kSwiglu_>
struct Tile {
  static constexpr int kGroups = kGroups_, kN = kN_;
  static constexpr bool kSwiglu = kSwiglu_;
  static constexpr int kRows = kGroups * kGroupRows, kConsumers = kGroups * 128, kAll = kConsumers + kLanes;
  static constexpr int kEights = kN / 8, kResults = kSwiglu ? kN / 2 : kN;
};

struct Maps {
  CUtensorMap weight[RowProducts::kMaxLayers], x;
};

struct Arguments {
  RowProducts products;
  RowSplit split;
  int slices = 0, stages = 0;  // slices of k, and stages of the ring
  int x_rows = 0;              // rows of x in a slice, a multiple of eight
  int row_blocks = 1;          // blocks that share weights and have other rows of x
};

#ifdef GENESIS_HOPPER

using hopper::describe;

struct Barriers {
  uint64_t filled[kMaxStages], free[kMaxStages];
};

// The work of a block.
template <class S>
struct Task {
  int layer, column, row;  // the first row of the layer's weights (of gate's and up's), and of x

  __device__ __forceinline__ explicit Task(const Arguments& a) {
    const int block = static_cast<int>(blockIdx.x) / a.row_blocks;
    layer = a.split.layer_of(a.products, S::kSwiglu, block);
    column = (block - static_cast<int>(a.split.first[layer])) * S::kResults;
    row = static_cast<int>(blockIdx.x) % a.row_blocks * S::kRows;
  }
};

// A ring of slices, each of x and then of weights.
template <class S>
struct Ring {
  uint32_t memory;
  int x_bytes, stages;
  Barriers& barriers;

  __device__ __forceinline__ Ring(const Arguments& a, uint32_t start, Barriers& b)
      : memory(start), x_bytes(a.x_rows * kRowBytes), stages(a.stages), barriers(b) {}
  __device__ __forceinline__ int stage_bytes() const { return x_bytes + S::kN * kRowBytes; }
  __device__ __forceinline__ uint32_t x(int stage) const { return memory + stage * stage_bytes(); }
  __device__ __forceinline__ uint32_t weights(int stage) const { return x(stage) + x_bytes; }
};

// Fills the ring; runs in one thread.
template <class S>
struct Producer {
  const Arguments& a;
  const Maps& maps;
  const Task<S>& task;
  const Ring<S>& ring;

  __device__ __forceinline__ void ask_weights(int slice, int stage) const {
    uint64_t* filled = &ring.barriers.filled[stage];
    expect_bytes(filled, static_cast<uint32_t>(ring.stage_bytes()));
    const int depth = slice * kDepth;
    const uint32_t to = ring.weights(stage), barrier = shared_address(filled);
    hopper::copy_box(to, &maps.weight[task.layer], barrier, depth, task.column);
    if constexpr (S::kSwiglu)
      hopper::copy_box(to + S::kResults * kRowBytes, &maps.weight[1], barrier, depth, task.column);
  }
  __device__ __forceinline__ void ask_x(int slice, int stage) const {
    hopper::copy_box(ring.x(stage), &maps.x, shared_address(&ring.barriers.filled[stage]), slice * kDepth,
                     task.row);
  }
  __device__ __forceinline__ void run() const {
    const int first = min(ring.stages, a.slices);
    if (a.products.independent)
      for (int i = 0; i < first; ++i) ask_weights(i, i);
    pdl_wait();
    for (int i = 0; i < first; ++i) {
      if (!a.products.independent) ask_weights(i, i);
      ask_x(i, i);
    }
    for (int i = first, stage = 0; i < a.slices; ++i) {
      wait_for_phase(&ring.barriers.free[stage], static_cast<uint32_t>(i / ring.stages - 1) & 1);
      ask_weights(i, stage);
      ask_x(i, stage);
      if (++stage == ring.stages) stage = 0;
    }
  }
};

// A thread's share of the tile: rows `row` and row + 8 of x, and of each eight columns two from `column` on.
template <class S>
struct Results {
  const RowProducts& p;
  const RowProducts::Layer& layer;
  int row, column;

  __device__ __forceinline__ Results(const Arguments& a, const Task<S>& task)
      : p(a.products), layer(a.products.layer[task.layer]) {
    const int thread = static_cast<int>(threadIdx.x);
    row = task.row + thread / kLanes * 16 + thread % kLanes / 4;
    column = task.column + thread % 4 * 2;
  }
  __device__ __forceinline__ bool has(int eight, int half) const {
    return row + 8 * half < p.m && column + 8 * eight < layer.n;
  }
  __device__ __forceinline__ int64_t at(int eight, int half) const {
    return (row + 8 * half) * layer.ldc + column + 8 * eight;
  }
  __device__ __forceinline__ uint32_t addend(int eight, int half) const {
    if (!layer.addend || !has(eight, half)) return 0;
    return *reinterpret_cast<const uint32_t*>(static_cast<const Bf16*>(layer.addend) + at(eight, half));
  }
  __device__ __forceinline__ uint32_t bias(const void* of, int eight) const {
    if (!of || column + 8 * eight >= layer.n) return 0;
    return *reinterpret_cast<const uint32_t*>(static_cast<const Bf16*>(of) + column + 8 * eight);
  }
  __device__ __forceinline__ void put(int eight, int half, float low, float high) const {
    if (has(eight, half))
      *reinterpret_cast<uint32_t*>(static_cast<Bf16*>(layer.y) + at(eight, half)) = pair_of<Bf16>(low, high);
  }
  // Finishes the sums of two rows: {low, high} of the first and then of the second.
  __device__ __forceinline__ void finish(int eight, const float4& sums, const uint32_t (&addends)[2]) const {
    const uint32_t biases = bias(layer.bias, eight);
    const float b[2] = {low_of<Bf16>(biases), high_of<Bf16>(biases)};
    put(eight, 0, activate(sums.x + b[0], p.activation) + low_of<Bf16>(addends[0]),
        activate(sums.y + b[1], p.activation) + high_of<Bf16>(addends[0]));
    put(eight, 1, activate(sums.z + b[0], p.activation) + low_of<Bf16>(addends[1]),
        activate(sums.w + b[1], p.activation) + high_of<Bf16>(addends[1]));
  }
  __device__ __forceinline__ void finish_gated(int eight, const float4& gate, const float4& up) const {
    const uint32_t of_gate = bias(layer.bias, eight), of_up = bias(p.layer[1].bias, eight);
    const float g[2] = {low_of<Bf16>(of_gate), high_of<Bf16>(of_gate)},
                u[2] = {low_of<Bf16>(of_up), high_of<Bf16>(of_up)};
    put(eight, 0, gated_sums<Bf16>(gate.x + g[0], up.x + u[0]), gated_sums<Bf16>(gate.y + g[1], up.y + u[1]));
    put(eight, 1, gated_sums<Bf16>(gate.z + g[0], up.z + u[0]), gated_sums<Bf16>(gate.w + g[1], up.w + u[1]));
  }
};

template <class S>
__device__ __forceinline__ void multiply_slices(int slices, const Ring<S>& ring, float (&sums)[S::kN / 2]) {
  constexpr uint32_t kEightRows = 8 * kRowBytes;
  const uint32_t own = static_cast<uint32_t>(threadIdx.x) / 128 * kGroupRows * kRowBytes;
  int stage = 0, before = 0;
  uint32_t parity = 0;
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    wait_for_phase(&ring.barriers.filled[stage], parity);
    hopper::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i)
      multiply_rows(sums, describe(ring.x(stage) + own + i * 32, kEightRows),
                    describe(ring.weights(stage) + i * 32, kEightRows), slice > 0 || i > 0);
    hopper::wgmma_commit_group();
    if (slice > 0) {
      hopper::wgmma_wait_group<1>();
      hopper::arrive_as_warp(ring.barriers.free[before]);
    }
    before = stage;
    if (++stage == ring.stages) stage = 0, parity ^= 1;
  }
  hopper::wgmma_wait_group<0>();
  hopper::pin(sums);
}

template <class S>
__device__ __forceinline__ float4 of_eight(const float (&sums)[S::kN / 2], int eight) {
  return make_float4(sums[4 * eight], sums[4 * eight + 1], sums[4 * eight + 2], sums[4 * eight + 3]);
}

template <class S>
__device__ __forceinline__ void finish_tile(const Results<S>& results, const float (&sums)[S::kN / 2]) {
  constexpr int kUps = S::kEights / 2;
  if constexpr (S::kSwiglu) {
#pragma unroll
    for (int i = 0; i < kUps; ++i) results.finish_gated(i, of_eight<S>(sums, i), of_eight<S>(sums, i + kUps));
  } else {
    constexpr int kAtOnce = 2;  // every kN is a multiple of 16
#pragma unroll
    for (int i = 0; i < S::kEights; i += kAtOnce) {
      uint32_t addends[kAtOnce][2];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        addends[j][0] = results.addend(i + j, 0), addends[j][1] = results.addend(i + j, 1);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) results.finish(i + j, of_eight<S>(sums, i + j), addends[j]);
    }
  }
}

template <class S>
__device__ __forceinline__ void make_barriers(const Arguments& a, Barriers& barriers) {
  for (int i = 0; i < a.stages; ++i) {
    init_barrier(&barriers.filled[i], 1);
    init_barrier(&barriers.free[i], static_cast<uint32_t>(S::kConsumers / kLanes));
  }
  let_copies_see_barriers();
}

#endif

}  // namespace genesis::cuda::row_tiles
