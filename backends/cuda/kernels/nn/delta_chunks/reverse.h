// The third kernel of the gradient: takes the gradient of the state of a head backward through all chunks. A block has 64 columns, as in
// scan.h. It stores the gradient of v, and for the last kernel those of R and of the state behind each chunk:
//
//   dU = to_end K dS + P^T dy;  dR = T^T dU;  dv = beta dR;  dS <- g(all) dS + Q^T from_start dy - K^T beta from_start dR
//
// mamba2 has dU in the place of dR, and its last term is absent.
#pragma once

#include "backends/cuda/kernels/nn/delta_chunks/scan.h"

namespace genesis::cuda::delta {

template <int kKeys>
struct ReverseMemory {
  static constexpr int kTile = Tile<kChunkTokens, kKeys>::kBytes,
                       kSlice = Tile<kChunkTokens, kSliceValues>::kBytes,
                       kState = Tile<kKeys, kSliceValues>::kBytes;
  // k; dy; the gradient of the state, in whose place dR comes later, and q behind dR; gates.
  static constexpr int kShared = kState > kSlice + kTile ? kState : kSlice + kTile;
  static constexpr int kBytes = kTile + kSlice + kShared + static_cast<int>(sizeof(ChunkGates));
};

#ifdef __CUDACC__

template <bool kCorrects, int kKeys>
struct Reverse {
  using Memory = ReverseMemory<kKeys>;
  const DeltaChunks& c;
  const Gradients<float>& g;
  int64_t head;
  int first_column, row, column;  // They mean what they mean in Scan.
  Tile<kChunkTokens, kKeys> k, q;
  Tile<kChunkTokens, kSliceValues> dy, dr;
  Tile<kKeys, kSliceValues> operand;
  ChunkGates& gates;
  StateSums<kKeys> gradient;
  Sums<4> du;

  __device__ Reverse(const DeltaChunks& chunks, const Gradients<float>& gradients, unsigned char* memory)
      : c(chunks),
        g(gradients),
        gates(*reinterpret_cast<ChunkGates*>(memory + Memory::kTile + Memory::kSlice + Memory::kShared)) {
    const int slices = static_cast<int>(c.d.values) / kSliceValues,
              warp = static_cast<int>(threadIdx.x) / kLanes;
    head = blockIdx.x / slices;
    first_column = static_cast<int>(blockIdx.x) % slices * kSliceValues;
    row = warp / 2 * 16;
    column = warp % 2 * 32;
    k.data = memory;
    dy.data = memory + Memory::kTile;
    operand.data = dr.data = dy.data + Memory::kSlice;
    q.data = dr.data + Memory::kSlice;
  }

  __device__ float* slice_of(float* x, int64_t number) const {
    return x + number * c.d.keys * c.d.values + first_column;
  }

  __device__ void run() {
    for (int64_t chunk = c.chunks - 1; chunk >= 0; --chunk) {
      begin(chunk);
      if (kCorrects) correct(chunk);
      store(chunk);
      retreat(chunk);
    }
    gradient.store(slice_of(g.state, head), c.d.values);
  }

  // Loads the chunk; sets du = dU.
  __device__ void begin(int64_t chunk) {
    const int64_t number = c.number(head, chunk);
    gates.load(c, number);
    gradient.put(operand);
    k.template fill<kScanThreads>(c.keys_of(c.d.k, head, chunk));
    dy.template fill<kScanThreads>(c.values_of(g.dy, head, chunk, first_column));
    gradient.store(slice_of(c.state_gradients, number), c.d.values);
    prefetch<kKeys>(c.keys_of(c.d.q, head, chunk));
    if (chunk > 0) {
      prefetch<kKeys>(c.keys_of(c.d.k, head, chunk - 1));
      prefetch<kSliceValues>(c.values_of(g.dy, head, chunk - 1, first_column));
      prefetch_triangle(c.p + (number - 1) * kTriangleWords);
      if (kCorrects) prefetch_triangle(c.t_transposed + (number - 1) * kTriangleWords);
    }
    __syncthreads();
    clear(du);
#pragma unroll 2
    for (int i = 0; i < kKeys; i += 16)
      multiply_add<true>(du, k.template load_a<false>(row, i), operand, i, column);
    each_pair(du, row, column, [&](float* x, int i, int) {
      const float decay = gates.to_end[i];
      x[0] = decayed(decay, x[0]);
      x[1] = decayed(decay, x[1]);
    });
    multiply_triangle<true>(du, c.p + number * kTriangleWords, row, dy, column);
    __syncthreads();
  }

  // Sets du = dR = T^T dU.
  __device__ void correct(int64_t chunk) {
    each_pair(du, row, column, [&](const float* x, int i, int j) { dr.put(i, j, x[0], x[1]); });
    __syncthreads();
    clear(du);
    multiply_triangle<true>(du, c.t_transposed + c.number(head, chunk) * kTriangleWords, row, dr, column);
    __syncthreads();
  }

  __device__ void store(int64_t chunk) {
    float* saved = c.r_gradients + c.number(head, chunk) * kChunkTokens * c.d.values + first_column;
    const RowsOfFloats rows = c.values_of(g.v, head, chunk, first_column);
    each_pair(du, row, column, [&](const float* x, int i, int j) {
      const float beta = gates.beta[i];
      *reinterpret_cast<float2*>(saved + i * c.d.values + j) = make_float2(x[0], x[1]);
      if (i < rows.count)
        *reinterpret_cast<float2*>(const_cast<float*>(rows.first) + i * rows.stride + j) =
            make_float2(beta * x[0], beta * x[1]);
    });
  }

  // Sets the gradient to that of the state before the chunk. No thread reads dy, dr or the operand any longer.
  __device__ void retreat(int64_t chunk) {
    q.template fill<kScanThreads>(c.keys_of(c.d.q, head, chunk));
    const RowsOfFloats rows = c.values_of(g.dy, head, chunk, first_column);
    each_pair(du, row, column, [&](const float* x, int i, int j) {
      const float decay = gates.from_start[i], factor = -gates.beta[i] * decay;
      const float2 own = rows.pair(i, j);
      dy.put(i, j, decay * own.x, decay * own.y);
      if (kCorrects) dr.put(i, j, factor * x[0], factor * x[1]);
    });
    gradient.scale(gates.from_start[kChunkTokens - 1]);
    __syncthreads();
    gradient.add_product(q, dy);
    if (kCorrects) gradient.add_product(k, dr);
    __syncthreads();
  }
};

template <bool kCorrects, int kKeys>
__global__ void __launch_bounds__(kScanThreads, 2) reverse_chunks(DeltaChunks c, Gradients<float> g) {
  extern __shared__ __align__(16) unsigned char delta_memory[];
  Reverse<kCorrects, kKeys>(c, g, delta_memory).run();
}

#endif

}  // namespace genesis::cuda::delta
