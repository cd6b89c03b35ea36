// The operands of a node in chunks of 64 tokens, and the results of the first kernel, which all kernels of this folder share.
//
// With the decays g of a chunk's tokens, G(i, j) = g(j + 1) ... g(i), and the state S before the chunk, gated_delta is
//
//   A(i, j) = beta(i) G(i, j) k(i) k(j) for j < i;  T = (1 + A)^-1;  P(i, j) = G(i, j) q(i) k(j) for j <= i
//   R = beta (v - from_start K S);  U = T R;  y = from_start Q S + P U;  S <- g(all) S + K^T to_end U
//
// where from_start(i) is the product of the decays up to token i, and to_end(j) that of those behind token j. mamba2 has U = beta v.
// Source: Yang et al., "Parallelizing linear transformers with the delta rule over sequence length", 2024.
#pragma once

#include "backends/cuda/kernels/nn/delta_chunks/split_tile.h"
#include "backends/cuda/kernels/nn/delta_operands.h"

namespace genesis::cuda::delta {

constexpr int kChunkTokens = 64, kSliceValues = 64;
// Floats between rows of a matrix of a chunk in shared memory.
constexpr int kRowFloats = 68, kMatrixBytes = kChunkTokens * kRowFloats * 4;

// Four rows of 16 x 16 fragments, of which the lower triangle is there; uint4 of a matrix.
constexpr int kTriangle = 10, kTriangleWords = kTriangle * 2 * kLanes;

// A node and its scratch memory; null pointers belong to the other pass.
struct DeltaChunks {
  Delta<float> d;
  int64_t chunks;
  uint4 *t, *p;         // forward: T and P; gradient: T and the transpose of P
  uint4* t_transposed;  // gradient
  float* gates;         // [head, chunk, 3, 64]: from_start, to_end, beta
  // The gradient has the states before chunks [head, chunk, keys, values] and U [head, chunk, 64, values], then the gradients of the
  // states behind chunks and of R in the same shapes.
  float *states, *u;
  float *state_gradients, *r_gradients;

#ifdef __CUDACC__
  __device__ int64_t number(int64_t head, int64_t chunk) const { return head * chunks + chunk; }
  __device__ int tokens_of(int64_t chunk) const {
    const int64_t left = d.time - chunk * kChunkTokens;
    return static_cast<int>(left < kChunkTokens ? left : kChunkTokens);
  }
  __device__ RowsOfFloats keys_of(const float* x, int64_t head, int64_t chunk) const {
    return {x + d.key_token(head, chunk * kChunkTokens) * d.keys, d.groups * d.keys, tokens_of(chunk)};
  }
  __device__ RowsOfFloats values_of(const float* x, int64_t head, int64_t chunk, int column) const {
    return {x + d.token(head, chunk * kChunkTokens) * d.values + column, d.heads_of_entry * d.values,
            tokens_of(chunk)};
  }
  __device__ float decay(int64_t head, int64_t chunk, int token) const {
    return gate(d.decay, head, chunk, token, 1);
  }
  __device__ float beta(int64_t head, int64_t chunk, int token) const {
    return gate(d.beta, head, chunk, token, 0);
  }
  __device__ float gate(const float* x, int64_t head, int64_t chunk, int token, float padding) const {
    return token < tokens_of(chunk) ? x[d.token(head, chunk * kChunkTokens + token)] : padding;
  }
#endif
};

#ifdef __CUDACC__

// Gates of a chunk in shared memory.
struct ChunkGates {
  float from_start[kChunkTokens], to_end[kChunkTokens], beta[kChunkTokens];

  __device__ void load(const DeltaChunks& c, int64_t number) {
    if (threadIdx.x < 3 * kChunkTokens)
      from_start[threadIdx.x] = c.gates[number * 3 * kChunkTokens + threadIdx.x];
  }
};

// A decay of 0 forgets values that are not finite, too.
__device__ __forceinline__ float decayed(float decay, float x) { return decay == 0 ? 0.0F : decay * x; }

// Sets g[i][j] = G(i, j), zero above the diagonal; thread j < 64 computes column j.
__device__ __forceinline__ void fill_decays(const float* decays, float* g) {
  const int j = static_cast<int>(threadIdx.x);
  float product = 1;
  for (int i = 0; i < kChunkTokens; ++i) {
    if (i > j) product *= decays[i];
    g[i * kRowFloats + j] = i < j ? 0.0F : product;
  }
}

// Returns the fragment [row][column] of a triangle in global memory, row >= column; of a transposed one [column][row].
__device__ __forceinline__ Fragment load_fragment(const uint4* triangle, int row, int column) {
  const uint4* at = triangle + (row * (row + 1) / 2 + column) * 2 * kLanes + threadIdx.x % kLanes;
  const uint4 high = at[0], low = at[kLanes];
  return {{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}};
}

// Adds the product of 16 rows of a lower triangle, or of a transposed one, with 8 kN columns of b [64, columns].
template <bool kIsTransposed, int kN, class B>
__device__ __forceinline__ void multiply_triangle(Sums<kN>& sums, const uint4* triangle, int row, const B& b,
                                                  int column) {
  const int own = row / 16, first = kIsTransposed ? own : 0,
            end = kIsTransposed ? kChunkTokens / 16 : own + 1;
  for (int k = first; k < end; ++k)
    multiply_add<true>(sums,
                       kIsTransposed ? load_fragment(triangle, k, own) : load_fragment(triangle, own, k), b,
                       16 * k, column);
}

// Asks the L2 cache for rows that are read later.
template <int kColumns>
__device__ __forceinline__ void prefetch(const RowsOfFloats& rows) {
  constexpr int kLine = 32;
  for (int i = static_cast<int>(threadIdx.x); i < rows.count * (kColumns / kLine);
       i += static_cast<int>(blockDim.x))
    prefetch_line(rows.first + i / (kColumns / kLine) * rows.stride + i % (kColumns / kLine) * kLine);
}

__device__ __forceinline__ void prefetch_triangle(const uint4* triangle) {
  constexpr int kWordsOfLine = 8;
  if (threadIdx.x < kTriangleWords / kWordsOfLine)
    prefetch_line(reinterpret_cast<const float*>(triangle + threadIdx.x * kWordsOfLine));
}

#endif

}  // namespace genesis::cuda::delta
