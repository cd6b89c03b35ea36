// The gradients of rms_norm and layer_norm with sums over rows, in one pass over memory. A block has many
// rows, dealt to groups of its threads: while a group computes on one row, its next is on its way into shared
// memory. Every thread copies what it will read itself, so within a warp nobody waits for anybody else. Sums
// of dweight and dbias stay in registers until the block is done. Used by kernels/norm_grad.cu.
#pragma once

#include "backends/cuda/async_copy.h"
#include "backends/cuda/norm_rows.h"
#include "backends/cuda/words.h"

namespace genesis::cuda {

// How rows are dealt to blocks; of the shape alone, and with it the order of every sum.
struct GradientBlocks {
  static constexpr int kMostThreads = 512, kMostHeld = 4;
  static constexpr int64_t kLongest = 8192;  // elements of a row that fit the registers of a block
  static constexpr int64_t kChip = 132;      // blocks that run at once

  int group = 32, at_once = 1;  // threads of a row; rows of a block in work at once
  int held = 1;                 // packs of a row that a thread has: 1, 2 or 4
  int64_t rows_each = 1, count = 0;

  int threads() const { return group * at_once; }

  static GradientBlocks of(int64_t rows, int64_t packs) {
    GradientBlocks b;
    b.group = 1;
    while (b.group < 32 && b.group < packs) b.group *= 2;
    while (b.group < kMostThreads && b.group * kMostHeld < packs) b.group *= 2;
    b.held = packs > 2 * b.group ? 4 : packs > b.group ? 2 : 1;
    b.at_once = std::max(1, 32 / b.group);
    while (b.threads() < kMostThreads && b.at_once * kChip < rows) b.at_once *= 2;
    b.rows_each = blocks_for(rows, kChip * b.at_once) * b.at_once;
    b.count = rows == 0 ? 0 : blocks_for(rows, b.rows_each);
    return b;
  }

  // Two rows of `tensors` tensors for every group, and the weight.
  size_t shared_bytes(int tensors, int64_t n) const {
    return static_cast<size_t>(2 * tensors * held * threads()) * 16 + static_cast<size_t>(n) * sizeof(float);
  }
  // Fewer rows in work where a chip has less shared memory; whether that does.
  bool fit(int tensors, int64_t n, size_t room) {
    while (shared_bytes(tensors, n) > room && threads() > std::max(group, 32)) at_once /= 2;
    return shared_bytes(tensors, n) <= room;
  }
};

struct GradientCall {
  NormArguments a;
  int64_t rows = 0, rows_each = 1;
  int packs = 0, group = 32;
  float* dweight = nullptr;  // of each block, n columns; or null
  float* dbias = nullptr;
};

#ifdef __CUDACC__

// What the gradient of a row needs besides its elements: with g = dy weight and z the normalised row,
// dx = (g - mean(g) - z mean(g z)) / sigma; no mean(g) without a centre.
template <class W>
struct GradientSums {
  W mean, inverse, mean_g, mean_gz;

  template <bool kCenter>
  __device__ W dx(W x, W dy, W weight) const {
    const W g = kCenter ? dy * weight - mean_g : dy * weight;
    return (g - (x - mean) * inverse * mean_gz) * inverse;
  }
};

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
  __shared__ float of_warp[2][M][GradientBlocks::kMostThreads / 32];
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
struct GradientLane {
  const GradientCall& call;
  int64_t row, last;  // its current row; past the block's rows
  int first, at_once;
  Words* slots;     // of this thread, `step` apart: x, dy and the residual of one row, then of another
  int step, stage;  // packs between two slots, and between the two rows

  __device__ GradientLane(const GradientCall& c, Words* shared)
      : call(c),
        row(blockIdx.x * c.rows_each + threadIdx.x / c.group),
        last(min(c.rows, (blockIdx.x + int64_t{1}) * c.rows_each)),
        first(static_cast<int>(threadIdx.x) % c.group),
        at_once(static_cast<int>(blockDim.x) / c.group),
        slots(shared + threadIdx.x),
        step(static_cast<int>(blockDim.x)),
        stage((c.a.residual ? 3 : 2) * K * static_cast<int>(blockDim.x)) {}

  __device__ int index(int k) const { return first + k * call.group; }  // in the row
  __device__ int packs_of(int64_t of_row) const { return of_row < last ? call.packs : 0; }

  // A batch: the row `ahead` turns from now into the slots of that turn.
  __device__ void fetch(int turn, int ahead) const {
    const int64_t from_row = row + static_cast<int64_t>(ahead) * at_once;
    const int packs = packs_of(from_row);
    Words* to = slots + ((turn + ahead) & 1) * stage;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (index(k) >= packs) continue;
      const int64_t at = from_row * call.packs + index(k);
      copy_async(to + k * step, static_cast<const Words*>(call.a.x) + at);
      copy_async(to + (K + k) * step, static_cast<const Words*>(call.a.dy) + at);
      if (call.a.residual)
        copy_async(to + (2 * K + k) * step, static_cast<const Words*>(call.a.residual) + at);
    }
    end_batch();
  }
  __device__ Words slot(int turn, int tensor, int k) const {
    return slots[(turn & 1) * stage + (tensor * K + k) * step];
  }
};

// The weight in shared memory, as parts of four, each a plane of its own: no two threads meet in a bank.
template <int N>
struct SharedWeight {
  using Part = Pack<float, 4>;
  Part* parts;
  int packs;

  __device__ void fill(const WideVector& weight) const {
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += static_cast<int>(blockDim.x)) {
      float w[N];
      weight.at(i, 1.0f, w);
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

// Adds the groups of the block in order into n columns of `to`. `room`: threads * K * N floats.
template <int N, int K>
__device__ void put_sums(const float (&mine)[K][N], int first, int group, int packs, float* room, float* to) {
  const int groups = static_cast<int>(blockDim.x) / group, n = packs * N;
  float* row = room + static_cast<int>(threadIdx.x) / group * n;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * group >= packs) continue;
#pragma unroll
    for (int j = 0; j < N; ++j) row[(first + k * group) * N + j] = mine[k][j];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += room[g * n + i];
    to[i] = sum;
  }
}

// The row in work, x (0), dy (1) and the residual (2): x and dy in registers where there are enough, which is
// without sums of dbias.
template <bool kHold, int K>
struct RowInWork {
  const GradientLane<K>& lane;
  int turn, packs;  // 0 packs: there is no row
  Words held[2][K];

  __device__ RowInWork(const GradientLane<K>& l, int at_turn)
      : lane(l), turn(at_turn), packs(l.packs_of(l.row)) {
    if constexpr (kHold)
      each([&](int k, int) {
        held[0][k] = lane.slot(turn, 0, k);
        held[1][k] = lane.slot(turn, 1, k);
      });
  }
  __device__ Words get(int tensor, int k) const {
    return kHold && tensor < 2 ? held[tensor][k] : lane.slot(turn, tensor, k);
  }
  // body(k, its index in the row) for the packs of this thread.
  template <class Body>
  __device__ void each(const Body& body) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (lane.index(k) < packs) body(k, lane.index(k));
  }
};

template <bool kCenter, class T, int N, class Row>
__device__ GradientSums<float> gradient_sums(const NormArguments& a, const SharedWeight<N>& weight,
                                             const Row& row) {
  const int group = row.lane.call.group;
  const float each = 1.0f / static_cast<float>(a.n);
  float mean[1] = {};
  if constexpr (kCenter) {
    row.each([&](int k, int) {
      const Words x = row.get(0, k);
#pragma unroll
      for (int j = 0; j < N; ++j) mean[0] += element_of<T>(x, j);
    });
    add_over_group(mean, group, row.turn);
    mean[0] *= each;
  }
  float sums[kCenter ? 3 : 2] = {};  // of squares, of g z sigma, of g
  row.each([&](int k, int i) {
    const Words x = row.get(0, k), dy = row.get(1, k);
    float w[N];
    weight.get(i, w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = element_of<T>(x, j) - mean[0], g = element_of<T>(dy, j) * w[j];
      sums[0] += d * d;
      sums[1] += g * d;
      if constexpr (kCenter) sums[2] += g;
    }
  });
  add_over_group(sums, group, row.turn);
  const float inverse = rsqrtf(sums[0] * each + static_cast<float>(a.eps));
  return {mean[0], inverse, kCenter ? sums[kCenter ? 2 : 0] * each : 0.0f, sums[1] * each * inverse};
}

// Writes dx of the row, and the norm's output where it is asked for, and adds to the sums of its columns.
template <bool kCenter, class T, int N, int K, class Row>
__device__ void finish_row(const NormArguments& a, const SharedWeight<N>& weight, const Row& row,
                           const GradientSums<float>& s, float (&dw)[K][N], float (&db)[K][N]) {
  const float slope = s.inverse * s.inverse * s.mean_gz, base = s.inverse * s.mean_g;
  row.each([&](int k, int i) {
    const Words x = row.get(0, k), dy = row.get(1, k);
    const Words past = a.residual ? row.get(2, k) : Words{};
    float w[N], dx[N];
    weight.get(i, w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = element_of<T>(x, j) - s.mean, g = element_of<T>(dy, j), scaled = g * s.inverse;
      dw[k][j] += scaled * d;
      if constexpr (kCenter) db[k][j] += g;
      dx[j] = scaled * w[j] - (kCenter ? d * slope + base : d * slope);
      if (a.residual) dx[j] += element_of<T>(past, j);
    }
    const int64_t at = row.lane.row * row.lane.call.packs + i;
    static_cast<Words*>(a.y)[at] = words_of<T>(dx);
    if (!a.output) return;
    float b[N] = {};
    if constexpr (kCenter) a.bias.at(i, 0.0f, b);
#pragma unroll
    for (int j = 0; j < N; ++j) b[j] += (element_of<T>(x, j) - s.mean) * s.inverse * w[j];
    static_cast<Words*>(a.output)[at] = words_of<T>(b);
  });
}

// Two rows of every group are in shared memory, one of them in work, and the sums of columns in registers.
template <bool kCenter, class T, int N, int K>
__global__ void __launch_bounds__(GradientBlocks::kMostThreads, 1) gradient_kernel(const GradientCall call) {
  extern __shared__ __align__(16) unsigned char shared[];
  Words* slots = reinterpret_cast<Words*>(shared);
  GradientLane<K> lane(call, slots);
  lane.fetch(0, 0);
  const SharedWeight<N> weight{reinterpret_cast<Pack<float, 4>*>(slots + 2 * lane.stage), call.packs};
  weight.fill(call.a.weight);
  __syncthreads();
  float dw[K][N] = {}, db[K][N] = {};
  const int64_t rows = lane.last - blockIdx.x * call.rows_each;
  const int turns = static_cast<int>((rows + lane.at_once - 1) / lane.at_once);
  for (int turn = 0; turn < turns; ++turn, lane.row += lane.at_once) {
    lane.fetch(turn, 1);
    wait_for_batches<1>();
    const RowInWork<!kCenter, K> row(lane, turn);
    const GradientSums<float> s = gradient_sums<kCenter, T>(call.a, weight, row);
    finish_row<kCenter, T>(call.a, weight, row, s, dw, db);
  }
  float* room = reinterpret_cast<float*>(shared);  // every copy is over
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.packs * N;
  if (call.dweight) put_sums<N, K>(dw, lane.first, call.group, call.packs, room, call.dweight + at);
  if (kCenter && call.dbias) put_sums<N, K>(db, lane.first, call.group, call.packs, room, call.dbias + at);
}

#endif

}  // namespace genesis::cuda
