// The second kernel: takes the state of a head through all chunks. A block has 64 columns of the state, in registers, and beside them as
// an operand in shared memory. In the forward pass it computes y and the states that are outputs; for the gradient it saves the state
// before each chunk and U.
#pragma once

#include "backends/cuda/kernels/nn/delta_chunks/chunks.h"

namespace genesis::cuda::delta {

constexpr int kScanThreads = 256;

struct ScanResults {
  float *y, *before, *after;  // outputs of the forward pass
};

template <int kKeys>
struct ScanMemory {
  static constexpr int kTile = Tile<kChunkTokens, kKeys>::kBytes,
                       kSlice = Tile<kChunkTokens, kSliceValues>::kBytes;
  // k; q, in whose place two slices of values come later; the state; gates.
  static constexpr int kShared = kTile > 2 * kSlice ? kTile : 2 * kSlice;
  static constexpr int kState = Tile<kKeys, kSliceValues>::kBytes;
  static constexpr int kBytes = kTile + kShared + kState + static_cast<int>(sizeof(float)) * 4 * kChunkTokens;
};

#ifdef __CUDACC__

// The columns of a state, and of its gradient, that a warp has in registers.
template <int kKeys>
struct StateSums {
  static constexpr int kM = kKeys / 64;
  Sums<4> at[kM];
  int row, column;  // the first of the block's

  __device__ StateSums() {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    row = warp / 2 * 16 * kM;
    column = warp % 2 * 32;
#pragma unroll
    for (int m = 0; m < kM; ++m) clear(at[m]);
  }
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int m = 0; m < kM; ++m) each_pair(at[m], row + 16 * m, column, f);
  }
  __device__ void scale(float factor) {
    each([&](float* x, int, int) {
      x[0] = decayed(factor, x[0]);
      x[1] = decayed(factor, x[1]);
    });
  }
  __device__ void put(const Tile<kKeys, kSliceValues>& tile) {
    each([&](const float* x, int i, int j) { tile.put(i, j, x[0], x[1]); });
  }
  // `memory` is at the block's first column of a state [keys, values].
  __device__ void store(float* memory, int64_t values) {
    each([&](const float* x, int i, int j) {
      *reinterpret_cast<float2*>(memory + i * values + j) = make_float2(x[0], x[1]);
    });
  }
  __device__ void load(const float* memory, int64_t values) {
    each([&](float* x, int i, int j) {
      const float2 pair = *reinterpret_cast<const float2*>(memory + i * values + j);
      x[0] = pair.x;
      x[1] = pair.y;
    });
  }
  // Adds x^T y, where x is [64, keys] and y [64, 64].
  __device__ void add_product(const Tile<kChunkTokens, kKeys>& x, const Tile<kChunkTokens, kSliceValues>& y) {
#pragma unroll 2
    for (int k = 0; k < kChunkTokens; k += 16) {
      Fragment a[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) a[m] = x.template load_a<true>(row + 16 * m, k);
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        const Fragment b = y.template load_b<true>(k, column + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m) multiply_add(at[m][n], at[m][n + 1], a[m], b);
      }
    }
  }
};

template <bool kCorrects, int kKeys, bool kSaves>
struct Scan {
  using Memory = ScanMemory<kKeys>;
  const DeltaChunks& c;
  const ScanResults& results;
  int64_t head;
  // The slice begins at the first; the warp has 16 x 32 elements of a slice of a chunk, which begin at the others.
  int first_column, row, column;
  Tile<kChunkTokens, kKeys> k, q;
  Tile<kChunkTokens, kSliceValues> left, right;
  Tile<kKeys, kSliceValues> operand;
  ChunkGates& gates;
  float* weights;
  StateSums<kKeys> state;
  Sums<4> y, u;

  __device__ Scan(const DeltaChunks& chunks, const ScanResults& r, unsigned char* memory)
      : c(chunks),
        results(r),
        gates(*reinterpret_cast<ChunkGates*>(memory + Memory::kTile + Memory::kShared + Memory::kState)) {
    const int slices = static_cast<int>(c.d.values) / kSliceValues,
              warp = static_cast<int>(threadIdx.x) / kLanes;
    head = blockIdx.x / slices;
    first_column = static_cast<int>(blockIdx.x) % slices * kSliceValues;
    row = warp / 2 * 16;
    column = warp % 2 * 32;
    k.data = memory;
    q.data = left.data = memory + Memory::kTile;
    right.data = left.data + Memory::kSlice;
    operand.data = memory + Memory::kTile + Memory::kShared;
    weights = reinterpret_cast<float*>(&gates + 1);
  }

  __device__ float* slice_of(float* x, int64_t number) const {
    return x + number * c.d.keys * c.d.values + first_column;
  }

  __device__ void run() {
    const int64_t values = c.d.values, last = kSaves ? -1 : last_token();
    if (c.d.state) state.load(c.d.state + head * c.d.keys * values + first_column, values);
    if (!kSaves && last < 0) state.store(slice_of(results.before, head), values);
    state.put(operand);
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
      begin(chunk);
      if (kCorrects) correct(chunk);
      see(chunk);
      if (!kSaves && chunk == last / kChunkTokens && last >= 0)
        store_before(chunk, static_cast<int>(last % kChunkTokens));
      advance();
    }
    if (!kSaves) state.store(slice_of(results.after, head), values);
  }

  // Loads the chunk; sets y = from_start Q S and u = beta (v - from_start K S).
  __device__ void begin(int64_t chunk) {
    const int64_t number = c.number(head, chunk);
    gates.load(c, number);
    k.template fill<kScanThreads>(c.keys_of(c.d.k, head, chunk));
    if (!kSaves) q.template fill<kScanThreads>(c.keys_of(c.d.q, head, chunk));
    if (kSaves) state.store(slice_of(c.states, number), c.d.values);
    if (chunk + 1 < c.chunks) {
      prefetch<kKeys>(c.keys_of(c.d.k, head, chunk + 1));
      if (!kSaves) prefetch<kKeys>(c.keys_of(c.d.q, head, chunk + 1));
      prefetch<kSliceValues>(c.values_of(c.d.v, head, chunk + 1, first_column));
      if (kCorrects) prefetch_triangle(c.t + (number + 1) * kTriangleWords);
      if (!kSaves) prefetch_triangle(c.p + (number + 1) * kTriangleWords);
    }
    __syncthreads();
    clear(y);
    clear(u);
    if (kCorrects || !kSaves) {
#pragma unroll 2
      for (int i = 0; i < kKeys; i += 16) {
        Fragment a_k, a_q;
        if (kCorrects) a_k = k.template load_a<false>(row, i);
        if (!kSaves) a_q = q.template load_a<false>(row, i);
        each_operand<true, 4>(operand, i, column, [&](int n, const Fragment& b) {
          if (kCorrects) multiply_add(u[n], u[n + 1], a_k, b);
          if (!kSaves) multiply_add(y[n], y[n + 1], a_q, b);
        });
      }
    }
    const RowsOfFloats v = c.values_of(c.d.v, head, chunk, first_column);
    each_pair(u, row, column, [&](float* x, int i, int j) {
      const float2 own = v.pair(i, j);
      const float decay = gates.from_start[i], beta = gates.beta[i];
      x[0] = beta * (own.x - decayed(decay, x[0]));
      x[1] = beta * (own.y - decayed(decay, x[1]));
    });
    each_pair(y, row, column, [&](float* x, int i, int) {
      const float decay = gates.from_start[i];
      x[0] = decayed(decay, x[0]);
      x[1] = decayed(decay, x[1]);
    });
    __syncthreads();
  }

  // Sets u = U = T R.
  __device__ void correct(int64_t chunk) {
    each_pair(u, row, column, [&](const float* x, int i, int j) { left.put(i, j, x[0], x[1]); });
    __syncthreads();
    clear(u);
    multiply_triangle<false>(u, c.t + c.number(head, chunk) * kTriangleWords, row, left, column);
  }

  // Adds P U to y and stores it, or stores U.
  __device__ void see(int64_t chunk) {
    if (kSaves) {
      float* to = c.u + c.number(head, chunk) * kChunkTokens * c.d.values + first_column;
      each_pair(u, row, column, [&](const float* x, int i, int j) {
        *reinterpret_cast<float2*>(to + i * c.d.values + j) = make_float2(x[0], x[1]);
      });
      __syncthreads();
      return;
    }
    each_pair(u, row, column, [&](const float* x, int i, int j) { right.put(i, j, x[0], x[1]); });
    __syncthreads();
    multiply_triangle<false>(y, c.p + c.number(head, chunk) * kTriangleWords, row, right, column);
    const RowsOfFloats rows = c.values_of(results.y, head, chunk, first_column);
    each_pair(y, row, column, [&](const float* x, int i, int j) {
      if (i < rows.count)
        *reinterpret_cast<float2*>(const_cast<float*>(rows.first) + i * rows.stride + j) =
            make_float2(x[0], x[1]);
    });
  }

  // Sets the state to that behind the chunk. All threads have passed a barrier since `left` was read.
  __device__ void advance() {
    each_pair(u, row, column, [&](const float* x, int i, int j) {
      const float decay = gates.to_end[i];
      left.put(i, j, decayed(decay, x[0]), decayed(decay, x[1]));
    });
    state.scale(gates.from_start[kChunkTokens - 1]);
    __syncthreads();
    state.add_product(k, left);
    state.put(operand);
    __syncthreads();
  }

  // Stores the state before a token of the chunk, from the state before the chunk and from the tokens ahead of that one.
  __device__ void store_before(int64_t chunk, int token) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kChunkTokens) {
      float product = thread < token ? 1.0F : 0.0F;
      for (int i = thread + 1; i < token; ++i) product *= c.decay(head, chunk, i);
      weights[thread] = product;
    }
    __syncthreads();
    each_pair(u, row, column, [&](const float* x, int i, int j) {
      left.put(i, j, decayed(weights[i], x[0]), decayed(weights[i], x[1]));
    });
    __syncthreads();
    state.store(slice_of(results.after, head), c.d.values);  // This keeps it: registers are full.
    if (token > 0) state.scale(gates.from_start[token - 1]);
    state.add_product(k, left);
    state.store(slice_of(results.before, head), c.d.values);
    state.load(slice_of(results.after, head), c.d.values);
    __syncthreads();
  }

  // Returns the last token that is no padding; -1 if there is none.
  __device__ int64_t last_token() const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int64_t end = c.d.time; end > 0; end -= kLanes) {
      const int64_t t = end - 1 - lane, token = c.d.token(head, t < 0 ? 0 : t);
      const bool is_padding = t < 0 || (c.d.decay[token] == 1 && c.d.beta[token] == 0);
      const unsigned others = __ballot_sync(~0u, !is_padding);
      if (others != 0) return end - __ffs(static_cast<int>(others));
    }
    return -1;
  }
};

template <bool kCorrects, int kKeys, bool kSaves>
__global__ void __launch_bounds__(kScanThreads, 2) scan_chunks(DeltaChunks c, ScanResults results) {
  extern __shared__ __align__(16) unsigned char delta_memory[];
  Scan<kCorrects, kKeys, kSaves>(c, results, delta_memory).run();
}

#endif

}  // namespace genesis::cuda::delta
