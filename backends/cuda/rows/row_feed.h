// Feeds kernels that have many rows per block: while a group of threads computes on one row, its next row is being
// copied into shared memory. Every thread copies exactly what it will read, so within a warp no thread waits for
// another.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/wide_vector.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/rows/rows.h"

namespace genesis::cuda {

// The distribution of rows to groups of threads. It depends on the shape alone, and so does the order of every sum.
struct RowDeal {
  static constexpr int kMaxThreads = 512, kMaxElements = 16;  // per block; elements of a row per thread
  static constexpr int64_t kLongest = kMaxThreads * kMaxElements;

  int group = 32, at_once = 1;  // threads per row; rows of a block in progress at once
  int packs_each = 1;           // packs of a row per thread: 1, 2 or 4
  int64_t count = 0;            // number of blocks

  int threads() const { return group * at_once; }

  // `width` is the number of elements of a pack, `blocks` the number of blocks that can run at once.
  static RowDeal of(int64_t rows, int64_t packs, int width, int64_t blocks) {
    RowDeal b;
    b.group = 1;
    while (b.group < 32 && b.group < packs) b.group *= 2;
    while (b.group < kMaxThreads && b.group * (kMaxElements / width) < packs) b.group *= 2;
    b.packs_each = packs > 2 * b.group ? 4 : packs > b.group ? 2 : 1;
    b.at_once = std::max(1, 32 / b.group);
    while (b.threads() < kMaxThreads && b.at_once * blocks < rows) b.at_once *= 2;
    b.count = std::min(blocks, blocks_for(rows, b.at_once));
    return b;
  }

  // Returns the shared memory for `stages` rows of `tensors` tensors for every group, and for `numbers` floats.
  size_t shared_bytes(int stages, int tensors, int64_t numbers) const {
    return static_cast<size_t>(stages * tensors * packs_each * threads()) * 16 +
           static_cast<size_t>(numbers) * sizeof(float);
  }
  // Reduces the rows in progress until they fit into `limit` bytes of shared memory; returns whether they do.
  bool fit(int stages, int tensors, int64_t numbers, size_t limit) {
    while (shared_bytes(stages, tensors, numbers) > limit && threads() > std::max(group, 32)) at_once /= 2;
    return shared_bytes(stages, tensors, numbers) <= limit;
  }
};

struct FeedCall {
  static constexpr int kMaxTensors = 3;
  const void* data[kMaxTensors] = {};
  int tensors = 1;
  int packs = 0, group = 32;
  int64_t rows = 0;
};

#ifdef __CUDACC__

// Returns the shared memory that is left beside static declarations of a kernel.
inline size_t shared_limit() {
  constexpr int kDeclared = 2 << 10;
  return static_cast<size_t>(shared_bytes_limit() - kDeclared);
}

// One thread's share of the rows of its group. Rows are dealt round robin: the whole chip works on neighboring rows,
// and the rows of the last round are spread over all blocks. The first kRequired tensors are never null. With kOnce
// the L2 cache evicts the rows first.
template <int K, int kStages, int kTensors, int kRequired, bool kOnce>
struct RowFeed {
  const FeedCall& call;
  int64_t row, stride;  // the current row, and the distance to the next
  int first, at_once;
  Words* ring;            // this thread's packs, `step` apart; each stage has a row of every tensor
  int step, stage_packs;  // packs between two packs of this thread, and between two stages
  int round = 0, reading = 0, writing = 0;
  int64_t asked;  // the next row to load
  uint64_t policy = evict_first_policy();

  __device__ RowFeed(const FeedCall& c, Words* shared)
      : call(c),
        row(threadIdx.x / c.group * int64_t{gridDim.x} + blockIdx.x),
        stride(blockDim.x / c.group * int64_t{gridDim.x}),
        first(static_cast<int>(threadIdx.x) % c.group),
        at_once(static_cast<int>(blockDim.x) / c.group),
        ring(shared + threadIdx.x),
        step(static_cast<int>(blockDim.x)),
        stage_packs(c.tensors * K * static_cast<int>(blockDim.x)),
        asked(row) {
#pragma unroll
    for (int i = 0; i < kStages; ++i) fetch();
  }

  // Returns the packs of a block's whole ring.
  __device__ static int ring_packs(const FeedCall& c) {
    return kStages * c.tensors * K * static_cast<int>(blockDim.x);
  }
  __device__ int index(int k) const { return first + k * call.group; }  // index of pack k in the row
  __device__ int packs() const { return row < call.rows ? call.packs : 0; }
  // Returns the rounds of the block; in the last one some groups have no row.
  __device__ int rounds() const { return static_cast<int>((call.rows - blockIdx.x + stride - 1) / stride); }

  // Waits until the current row has arrived.
  __device__ void wait() const { wait_for_batches<kStages - 1>(); }
  // Moves on to the next row and starts loading a later one into the stage of the current one.
  __device__ void advance() {
    fetch();
    row += stride;
    reading = reading + 1 == kStages ? 0 : reading + 1;
    ++round;
  }

  __device__ Words pack(int tensor, int k) const {
    return ring[reading * stage_packs + (tensor * K + k) * step];
  }
  // Reads the elements of pack k, widened; zeros past the row.
  template <class T, int N>
  __device__ void elements(int tensor, int k, float (&to)[N]) const {
    const Words words = index(k) < packs() ? pack(tensor, k) : Words{};
#pragma unroll
    for (int j = 0; j < N; ++j) to[j] = element_of<T>(words, j);
  }

 private:
  // Starts the copies of one row as one batch; past the last row the batch is empty.
  __device__ void fetch() {
    if (asked < call.rows) {
      const int64_t at = asked * call.packs + first;
      Words* to = ring + writing * stage_packs;
#pragma unroll
      for (int t = 0; t < kTensors; ++t)
        if (t < kRequired || call.data[t])
          fetch_pack(to + t * K * step, static_cast<const Words*>(call.data[t]) + at);
    }
    end_batch();
    asked += stride;
    writing = writing + 1 == kStages ? 0 : writing + 1;
  }
  __device__ void fetch_pack(Words* to, const Words* from) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (index(k) < call.packs) copy(to + k * step, from + k * call.group);
  }
  __device__ void copy(Words* to, const Words* from) const {
    if constexpr (kOnce)
      copy_async_once(to, from, policy);
    else
      copy_async(to, from);
  }
};

// A weight or a bias in shared memory, split into planes of four floats per pack, so that no two threads use the same
// bank.
template <int N>
struct SharedVector {
  using Quad = Pack<float, 4>;
  Quad* quads;
  int packs;

  __device__ void fill(const WideVector& vector, float absent) const {
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += static_cast<int>(blockDim.x)) {
      float w[N];
      vector.at(i, absent, w);
#pragma unroll
      for (int j = 0; j < N; ++j) quads[j / 4 * packs + i].at[j % 4] = w[j];
    }
  }
  __device__ void get(int i, float (&w)[N]) const {
#pragma unroll
    for (int plane = 0; plane < N / 4; ++plane) {
      const Quad p = quads[plane * packs + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) w[plane * 4 + j] = p.at[j];
    }
  }
};

#endif

}  // namespace genesis::cuda
