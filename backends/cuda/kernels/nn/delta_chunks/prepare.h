// The first kernel: computes T and P of every chunk as fragments, and the gates. A block has one chunk of one head.
#pragma once

#include "backends/cuda/kernels/nn/delta_chunks/chunks.h"

namespace genesis::cuda::delta {

constexpr int kPrepareThreads = 256;

template <int kKeys>
struct PrepareMemory {
  static constexpr int kTile = Tile<kChunkTokens, kKeys>::kBytes;
  // Tiles of k and q, in whose place A, P, T and G come later; then the gates.
  static constexpr int kMatrices = 2 * kTile > 4 * kMatrixBytes ? 2 * kTile : 4 * kMatrixBytes;
  static constexpr int kBytes = kMatrices + 2 * kChunkTokens * 4;
};

#ifdef __CUDACC__

template <bool kCorrects, int kKeys>
struct Prepare {
  using Memory = PrepareMemory<kKeys>;
  const DeltaChunks& c;
  int64_t head, chunk;
  Tile<kChunkTokens, kKeys> k, q;
  float *a, *p, *t, *g, *decays, *betas;

  __device__ Prepare(const DeltaChunks& chunks, unsigned char* memory)
      : c(chunks), head(blockIdx.x / c.chunks), chunk(blockIdx.x % c.chunks) {
    k.data = memory;
    q.data = memory + Memory::kTile;
    a = reinterpret_cast<float*>(memory);
    p = a + kMatrixBytes / 4;
    t = p + kMatrixBytes / 4;
    g = t + kMatrixBytes / 4;
    decays = reinterpret_cast<float*>(memory + Memory::kMatrices);
    betas = decays + kChunkTokens;
  }

  __device__ void run(bool for_gradient) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kChunkTokens) {
      decays[thread] = c.decay(head, chunk, thread);
      betas[thread] = c.beta(head, chunk, thread);
    }
    load_keys();
    __syncthreads();
    multiply_keys();
    __syncthreads();
    const int64_t number = c.number(head, chunk), at = number * kTriangleWords;
    if (thread < kChunkTokens) {
      float* gates = c.gates + number * 3 * kChunkTokens + thread;
      gates[0] = decays[0] * g[thread * kRowFloats];
      gates[kChunkTokens] = g[(kChunkTokens - 1) * kRowFloats + thread];
      gates[2 * kChunkTokens] = betas[thread];
    }
    if (for_gradient)
      store<true>(p, c.p + at);
    else
      store<false>(p, c.p + at);
    if (!kCorrects) return;
    invert();
    store<false>(t, c.t + at);
    if (for_gradient) store<true>(t, c.t_transposed + at);
  }

  __device__ void load_keys() {
    using Loads = TileLoads<Tile<kChunkTokens, kKeys>, kPrepareThreads>;
    Loads of_k(c.keys_of(c.d.k, head, chunk)), of_q(c.keys_of(c.d.q, head, chunk));
    of_k.store(k);
    of_q.store(q);
  }

  // Sets a = A and p = P.
  __device__ void multiply_keys() {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, row = warp % 4 * 16, column = warp / 4 * 32;
    Sums<4> of_k, of_q;
    clear(of_k);
    clear(of_q);
    const bool is_zero = column > row + 15;  // above the diagonal
#pragma unroll 2
    for (int i = 0; i < kKeys && !is_zero; i += 16) {
      const Fragment a_q = q.template load_a<false>(row, i);
      Fragment a_k;
      if (kCorrects) a_k = k.template load_a<false>(row, i);
      each_operand<false, 4>(k, i, column, [&](int n, const Fragment& operand) {
        if (kCorrects) multiply_add(of_k[n], of_k[n + 1], a_k, operand);
        multiply_add(of_q[n], of_q[n + 1], a_q, operand);
      });
    }
    __syncthreads();
    if (threadIdx.x < kChunkTokens) fill_decays(decays, g);
    __syncthreads();
    const auto factor = [&](int i, int j) { return g[i * kRowFloats + j]; };
    each_pair(of_q, row, column, [&](const float* x, int i, int j) {
      p[i * kRowFloats + j] = decayed(factor(i, j), x[0]);
      p[i * kRowFloats + j + 1] = decayed(factor(i, j + 1), x[1]);
    });
    if (!kCorrects) return;
    each_pair(of_k, row, column, [&](const float* x, int i, int j) {
      a[i * kRowFloats + j] = j < i ? betas[i] * decayed(factor(i, j), x[0]) : 0.0F;
      a[i * kRowFloats + j + 1] = j + 1 < i ? betas[i] * decayed(factor(i, j + 1), x[1]) : 0.0F;
    });
  }

  // Sets t = T, in blocks of 16 x 16: first those of the diagonal by substitution, then T(i, j) = -T(i, i) sum of A(i, m) T(m, j). The
  // sums take the places of the blocks of `a` above the diagonal.
  __device__ void invert() {
    const int thread = static_cast<int>(threadIdx.x), r = thread / 16, column = thread % 16;
    if (thread < kChunkTokens) invert_diagonal(thread / 16 * 16, column);
    __syncthreads();
    for (int apart = 16; apart < kChunkTokens; apart += 16) {
      for (int i = apart; i < kChunkTokens; i += 16) {
        const int j = i - apart;
        float sum = 0;
        for (int m = j; m < i; m += 4) {
          const float4 x = *reinterpret_cast<const float4*>(a + (i + r) * kRowFloats + m);
          const float* y = t + m * kRowFloats + j + column;
          sum += x.x * y[0] + x.y * y[kRowFloats] + x.z * y[2 * kRowFloats] + x.w * y[3 * kRowFloats];
        }
        a[(j + r) * kRowFloats + i + column] = sum;
      }
      __syncthreads();
      for (int i = apart; i < kChunkTokens; i += 16) {
        const int j = i - apart;
        float sum = 0;
        for (int m = 0; m < 16; m += 4) {
          const float4 x = *reinterpret_cast<const float4*>(t + (i + r) * kRowFloats + i + m);
          const float* y = a + (j + m) * kRowFloats + i + column;
          sum += x.x * y[0] + x.y * y[kRowFloats] + x.z * y[2 * kRowFloats] + x.w * y[3 * kRowFloats];
        }
        t[(i + r) * kRowFloats + j + column] = -sum;
      }
      __syncthreads();
    }
  }

  // Computes a column of a block of the diagonal.
  __device__ void invert_diagonal(int first, int column) {
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = r == column ? 1.0F : 0.0F;
#pragma unroll
      for (int m = 0; m < r; ++m) x[r] -= a[(first + r) * kRowFloats + first + m] * x[m];
      t[(first + r) * kRowFloats + first + column] = x[r];
    }
  }

  // Writes the lower triangle of a matrix, or the transpose of it, as fragments of an operand a.
  template <bool kIsTransposed>
  __device__ void store(const float* matrix, uint4* to) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int n = static_cast<int>(threadIdx.x) / kLanes; n < kTriangle; n += kPrepareThreads / kLanes) {
      const int row = n < 1 ? 0 : n < 3 ? 1 : n < 6 ? 2 : 3, column = n - row * (row + 1) / 2;
      const auto pair = [&](int i, int j) {
        const float* block = matrix + 16 * row * kRowFloats + 16 * column;
        return kIsTransposed ? split(block[j * kRowFloats + i], block[(j + 1) * kRowFloats + i])
                             : split(block[i * kRowFloats + j], block[i * kRowFloats + j + 1]);
      };
      const int i = lane / 4, j = lane % 4 * 2;
      const SplitPair first = pair(i, j), second = pair(i + 8, j), third = pair(i, j + 8),
                      fourth = pair(i + 8, j + 8);
      to[n * 2 * kLanes + lane] = make_uint4(first.high, second.high, third.high, fourth.high);
      to[(n * 2 + 1) * kLanes + lane] = make_uint4(first.low, second.low, third.low, fourth.low);
    }
  }
};

template <bool kCorrects, int kKeys>
__global__ void __launch_bounds__(kPrepareThreads, 3) prepare_chunks(DeltaChunks c, bool for_gradient) {
  extern __shared__ __align__(16) unsigned char delta_memory[];
  Prepare<kCorrects, kKeys>(c, delta_memory).run(for_gradient);
}

#endif

}  // namespace genesis::cuda::delta
