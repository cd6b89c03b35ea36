// Rows for kernels that have many of them to a block: while a group of threads computes on one row, its next
// is on its way into shared memory. Every thread copies what it will read itself, so within a warp nobody
// waits for anybody else. Used by norm_forward.h and norm_gradient.h.
#pragma once

#include "backends/cuda/async_copy.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/wide_vector.h"
#include "backends/cuda/words.h"

namespace genesis::cuda {

// How rows are dealt to blocks; of the shape alone, and with it the order of every sum.
struct RowDeal {
  static constexpr int kMostThreads = 512, kMostHeld = 4;
  static constexpr int64_t kLongest = 8192;  // elements of a row that fit the registers of a block

  int group = 32, at_once = 1;  // threads of a row; rows of a block in work at once
  int held = 1;                 // packs of a row that a thread has: 1, 2 or 4
  int64_t rows_each = 1, count = 0;

  int threads() const { return group * at_once; }

  // `blocks`: so many run at once.
  static RowDeal of(int64_t rows, int64_t packs, int64_t blocks) {
    RowDeal b;
    b.group = 1;
    while (b.group < 32 && b.group < packs) b.group *= 2;
    while (b.group < kMostThreads && b.group * kMostHeld < packs) b.group *= 2;
    b.held = packs > 2 * b.group ? 4 : packs > b.group ? 2 : 1;
    b.at_once = std::max(1, 32 / b.group);
    while (b.threads() < kMostThreads && b.at_once * blocks < rows) b.at_once *= 2;
    b.rows_each = blocks_for(rows, blocks * b.at_once) * b.at_once;
    b.count = rows == 0 ? 0 : blocks_for(rows, b.rows_each);
    return b;
  }

  // Two rows of `tensors` tensors for every group, and so many numbers.
  size_t shared_bytes(int tensors, int64_t numbers) const {
    return static_cast<size_t>(2 * tensors * held * threads()) * 16 +
           static_cast<size_t>(numbers) * sizeof(float);
  }
  // Fewer rows in work where a chip has less shared memory; whether that does.
  bool fit(int tensors, int64_t numbers, size_t room) {
    while (shared_bytes(tensors, numbers) > room && threads() > std::max(group, 32)) at_once /= 2;
    return shared_bytes(tensors, numbers) <= room;
  }
  // body(std::integral_constant<int, held>), for kernels whose threads keep their packs in registers.
  template <class Body>
  void with_held(Body&& body) const {
    if (held == 1) return body(std::integral_constant<int, 1>{});
    if (held == 2) return body(std::integral_constant<int, 2>{});
    body(std::integral_constant<int, 4>{});
  }
};

struct FeedCall {
  static constexpr int kMostTensors = 3;
  const void* data[kMostTensors] = {};
  int tensors = 1;
  int packs = 0, group = 32;
  int64_t rows = 0, rows_each = 1;
};

#ifdef __CUDACC__

// Shared memory for what a kernel does not declare itself.
inline size_t shared_room() {
  constexpr int kDeclared = 2 << 10;
  return static_cast<size_t>(shared_bytes_limit() - kDeclared);
}

// The sums of each v over the threads of a group, in all of them. Every thread of the group calls it;
// `turn` alternates between calls, so that one barrier is enough.
template <int M>
__device__ void add_over_group(float (&v)[M], int group, int turn) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    if (step >= group) continue;
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] += __shfl_xor_sync(~0u, v[m], step);
  }
  if (group <= 32) return;
  __shared__ float of_warp[2][M][RowDeal::kMostThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            warps = group / 32;
#pragma unroll
  for (int m = 0; m < M; ++m)
    if (lane == 0) of_warp[turn & 1][m][warp] = v[m];
  wait_for_threads(1 + static_cast<int>(threadIdx.x) / group, group);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    v[m] = of_warp[turn & 1][m][warp / warps * warps + lane % warps];
    for (int step = warps / 2; step > 0; step /= 2) v[m] += __shfl_xor_sync(~0u, v[m], step);
  }
}

// A thread's part of the rows of its group.
template <int K>
struct RowFeed {
  const FeedCall& call;
  int64_t row, last;  // its current row; past the block's rows
  int first, at_once;
  Words* slots;     // of this thread, `step` apart: the packs of all tensors' rows, then of their next
  int step, stage;  // packs between two slots, and between the two rows

  __device__ RowFeed(const FeedCall& c, Words* shared)
      : call(c),
        row(blockIdx.x * c.rows_each + threadIdx.x / c.group),
        last(min(c.rows, (blockIdx.x + int64_t{1}) * c.rows_each)),
        first(static_cast<int>(threadIdx.x) % c.group),
        at_once(static_cast<int>(blockDim.x) / c.group),
        slots(shared + threadIdx.x),
        step(static_cast<int>(blockDim.x)),
        stage(c.tensors * K * static_cast<int>(blockDim.x)) {}

  __device__ int index(int k) const { return first + k * call.group; }  // in the row
  __device__ int packs_of(int64_t of_row) const { return of_row < last ? call.packs : 0; }
  // Of the block: in the last ones some groups have no row.
  __device__ int turns() const {
    return static_cast<int>((last - blockIdx.x * call.rows_each + at_once - 1) / at_once);
  }

  // A batch: the row `ahead` turns from now into the slots of that turn.
  __device__ void fetch(int turn, int ahead) const {
    const int64_t from_row = row + static_cast<int64_t>(ahead) * at_once;
    const int packs = packs_of(from_row);
    Words* to = slots + ((turn + ahead) & 1) * stage;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (index(k) >= packs) continue;
      const int64_t at = from_row * call.packs + index(k);
#pragma unroll
      for (int t = 0; t < FeedCall::kMostTensors; ++t)
        if (t < call.tensors)
          copy_async(to + (t * K + k) * step, static_cast<const Words*>(call.data[t]) + at);
    }
    end_batch();
  }
  __device__ Words slot(int turn, int tensor, int k) const {
    return slots[(turn & 1) * stage + (tensor * K + k) * step];
  }
};

// A weight or a bias in shared memory, as parts of four, each a plane of its own: no two threads meet in a
// bank.
template <int N>
struct SharedVector {
  using Part = Pack<float, 4>;
  Part* parts;
  int packs;

  __device__ void fill(const WideVector& vector, float absent) const {
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += static_cast<int>(blockDim.x)) {
      float w[N];
      vector.at(i, absent, w);
#pragma unroll
      for (int j = 0; j < N; ++j) parts[j / 4 * packs + i].at[j % 4] = w[j];
    }
  }
  __device__ void get(int i, float (&w)[N]) const {
#pragma unroll
    for (int part = 0; part < N / 4; ++part) {
      const Part p = parts[part * packs + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) w[part * 4 + j] = p.at[j];
    }
  }
};

#endif

}  // namespace genesis::cuda
