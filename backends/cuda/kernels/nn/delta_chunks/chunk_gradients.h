// The last kernel of the gradient: computes the gradients of q, k, decay and beta of a chunk of a head from what the others saved. A
// block has one chunk. With dG, the gradient of G (chunks.h):
//
//   dP = dy U^T;  dA = -dR U^T;  X = G dP (lower triangle);  Z = beta G dA (below the diagonal)
//   dq = from_start dy S^T + X K;  dk = to_end U dS^T + X^T Q - beta from_start dR S^T + (Z + Z^T) K
//   dG(i, j) = dP(i, j) q(i) k(j) + dA(i, j) beta(i) k(i) k(j)
//
// G(i, j) is a product of decays; its gradient reaches the decay of token m over all i >= m > j, without a division:
//
//   E(m, j) = dG(m, j) + g(m + 1) E(m + 1, j);  d g(m) = sum over j < m of E(m, j) G(m - 1, j)
#pragma once

#include "backends/cuda/kernels/nn/delta_chunks/chunks.h"

namespace genesis::cuda::delta {

constexpr int kChunkGradientThreads = 512;

template <int kKeys>
struct ChunkGradientMemory {
  static constexpr int kTile = Tile<kChunkTokens, kKeys>::kBytes,
                       kSlice = Tile<kChunkTokens, kSliceValues>::kBytes,
                       kState = Tile<kKeys, kSliceValues>::kBytes;
  // First a slice of dy, U, dR, the states before and behind the chunk; in their place k, q, X, Z and dG. Then G and the vectors.
  static constexpr int kSlices = 3 * kSlice + 2 * kState, kProducts = 2 * kTile + 2 * kSlice + kMatrixBytes;
  static constexpr int kShared = kSlices > kProducts ? kSlices : kProducts;
  static constexpr int kVectors = (3 + 1 + 3 * 4 + 2) * kChunkTokens * 4 + 32 * 4;
  static constexpr int kBytes = kShared + kMatrixBytes + kVectors;
};

#ifdef __CUDACC__

struct ChunkGradientVectors {
  ChunkGates gates;
  float decays[kChunkTokens];
  // Parts of the gradients of from_start, to_end and beta, one of each column of warps.
  float from_start[4][kChunkTokens], to_end[4][kChunkTokens], beta[4][kChunkTokens];
  float beta_of_values[kChunkTokens], start[kChunkTokens];  // `start`: the column of E of the state
  float corner[32];                                         // parts of the sum of S dS, one of each warp
};

template <bool kCorrects, int kKeys>
struct ChunkGradient {
  using Memory = ChunkGradientMemory<kKeys>;
  static constexpr int kN = kKeys / 32;  // sums of a warp along keys
  const DeltaChunks& c;
  const Gradients<float>& g;
  int64_t head, chunk, number;
  int warp, lane, row, token_column, key_column;
  Tile<kChunkTokens, kSliceValues> dy, u, dr, x, z;
  Tile<kKeys, kSliceValues> before, behind;
  Tile<kChunkTokens, kKeys> k, q;
  float *dg, *decay_products;
  ChunkGradientVectors& v;
  Sums<2> dp, da;
  Sums<kN> dy_s, dr_s, u_ds;
  float corner = 0;

  __device__ ChunkGradient(const DeltaChunks& chunks, const Gradients<float>& gradients,
                           unsigned char* memory)
      : c(chunks),
        g(gradients),
        head(blockIdx.x / c.chunks),
        chunk(blockIdx.x % c.chunks),
        number(blockIdx.x),
        warp(static_cast<int>(threadIdx.x) / kLanes),
        lane(static_cast<int>(threadIdx.x) % kLanes),
        v(*reinterpret_cast<ChunkGradientVectors*>(memory + Memory::kShared + kMatrixBytes)) {
    row = warp / 4 * 16;
    token_column = warp % 4 * 16;
    key_column = warp % 4 * 8 * kN;
    dy.data = memory;
    u.data = memory + Memory::kSlice;
    dr.data = memory + 2 * Memory::kSlice;
    before.data = memory + 3 * Memory::kSlice;
    behind.data = before.data + Memory::kState;
    k.data = memory;
    q.data = memory + Memory::kTile;
    x.data = memory + 2 * Memory::kTile;
    z.data = x.data + Memory::kSlice;
    dg = reinterpret_cast<float*>(z.data + Memory::kSlice);
    decay_products = reinterpret_cast<float*>(memory + Memory::kShared);
    clear(dp);
    clear(da);
    clear(dy_s);
    clear(dr_s);
    clear(u_ds);
  }

  __device__ void run() {
    const int thread = static_cast<int>(threadIdx.x);
    v.gates.load(c, number);
    if (thread < kChunkTokens) {
      v.decays[thread] = c.decay(head, chunk, thread);
      v.beta_of_values[thread] = 0;
    }
    for (int column = 0; column < c.d.values; column += kSliceValues) {
      __syncthreads();
      load_slice(column);
      __syncthreads();
      multiply_slice();
    }
    corner = warp_sum(corner);
    if (lane == 0) v.corner[warp] = corner;
    __syncthreads();
    k.template fill<kChunkGradientThreads>(c.keys_of(c.d.k, head, chunk));
    q.template fill<kChunkGradientThreads>(c.keys_of(c.d.q, head, chunk));
    if (thread < kChunkTokens) fill_decays(v.decays, decay_products);
    __syncthreads();
    sum_keys();
    multiply_pairs();
    __syncthreads();
    finish_keys();
    finish_gates();
  }

  // Loads 64 columns; adds to the gradient of beta what comes from v.
  __device__ void load_slice(int column) {
    const RowsOfFloats values = c.values_of(c.d.v, head, chunk, column);
    const int64_t rows = number * kChunkTokens * c.d.values + column,
                  states = number * c.d.keys * c.d.values + column;
    dy.template fill<kChunkGradientThreads>(c.values_of(g.dy, head, chunk, column));
    u.template fill<kChunkGradientThreads>({c.u + rows, c.d.values, kChunkTokens});
    const auto see = [&](int i, int j, const float4& pack) {
      const float4 own = values.pack(i, j);
      const float sum =
          reduce_lanes(own.x * pack.x + own.y * pack.y + own.z * pack.z + own.w * pack.w, 16, Add{});
      if (lane % 16 == 0) v.beta_of_values[i] += sum;
    };
    dr.template fill<kChunkGradientThreads>({c.r_gradients + rows, c.d.values, kChunkTokens}, see);
    const RowsOfFloats ahead{c.states + states, c.d.values, kKeys};
    before.template fill<kChunkGradientThreads>(ahead);
    behind.template fill<kChunkGradientThreads>(
        {c.state_gradients + states, c.d.values, kKeys}, [&](int i, int j, const float4& pack) {
          const float4 own = ahead.pack(i, j);
          corner += own.x * pack.x + own.y * pack.y + own.z * pack.z + own.w * pack.w;
        });
  }

  __device__ void multiply_slice() {
#pragma unroll 1
    for (int i = 0; i < kSliceValues; i += 16) {
      const Fragment of_dy = dy.template load_a<false>(row, i);
      Fragment of_dr;
      if (kCorrects) of_dr = dr.template load_a<false>(row, i);
      each_operand<false, 2>(u, i, token_column, [&](int n, const Fragment& b) {
        multiply_add(dp[n], dp[n + 1], of_dy, b);
        if (kCorrects) multiply_add(da[n], da[n + 1], of_dr, b);
      });
      each_operand<false, kN>(before, i, key_column, [&](int n, const Fragment& b) {
        multiply_add(dy_s[n], dy_s[n + 1], of_dy, b);
        if (kCorrects) multiply_add(dr_s[n], dr_s[n + 1], of_dr, b);
      });
      multiply_add<false>(u_ds, u.template load_a<false>(row, i), behind, i, key_column);
    }
  }

  // Sums over the lanes that have one row, and stores the sums of rows `row` + g and `row` + 8 + g.
  __device__ void store_rows(float (&sums)[2], float* to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = reduce_lanes(sums[half], 4, Add{});
      if (lane % 4 == 0) to[row + lane / 4 + 8 * half] = sum;
    }
  }

  // Sums q dy S^T, k U dS^T and k dR S^T over keys, of which the gradients of the gates consist; scales the products.
  __device__ void sum_keys() {
    float from_start[2] = {}, to_end[2] = {}, miss[2] = {};
    const auto dot = [](const float2& a, const float* b) { return a.x * b[0] + a.y * b[1]; };
    const auto half = [&](int i) { return (i - row) / 8; };
    each_pair(dy_s, row, key_column, [&](float* s, int i, int j) {
      from_start[half(i)] += dot(q.get(i, j), s);
      s[0] = decayed(v.gates.from_start[i], s[0]);
      s[1] = decayed(v.gates.from_start[i], s[1]);
    });
    each_pair(u_ds, row, key_column, [&](float* s, int i, int j) {
      to_end[half(i)] += dot(k.get(i, j), s);
      s[0] = decayed(v.gates.to_end[i], s[0]);
      s[1] = decayed(v.gates.to_end[i], s[1]);
    });
    if constexpr (kCorrects) {
      each_pair(dr_s, row, key_column, [&](float* s, int i, int j) {
        miss[half(i)] += dot(k.get(i, j), s);
        s[0] = v.gates.beta[i] * decayed(v.gates.from_start[i], s[0]);
        s[1] = v.gates.beta[i] * decayed(v.gates.from_start[i], s[1]);
      });
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) u_ds[n][e] -= dr_s[n][e];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + lane / 4 + 8 * h;
      from_start[h] -= v.gates.beta[i] * miss[h];
      miss[h] = -decayed(v.gates.from_start[i], miss[h]);
    }
    const int part = warp % 4;
    store_rows(from_start, v.from_start[part]);
    store_rows(to_end, v.to_end[part]);
    store_rows(miss, v.beta[part]);
  }

  // Computes X, Z and dG, and adds the part of the gradient of beta that comes from A.
  __device__ void multiply_pairs() {
    Sums<2> of_q, of_k;
    clear(of_q);
    clear(of_k);
#pragma unroll 2
    for (int i = 0; i < kKeys; i += 16) {
      const Fragment a_q = q.template load_a<false>(row, i);
      Fragment a_k;
      if (kCorrects) a_k = k.template load_a<false>(row, i);
      each_operand<false, 2>(k, i, token_column, [&](int n, const Fragment& b) {
        multiply_add(of_q[n], of_q[n + 1], a_q, b);
        if (kCorrects) multiply_add(of_k[n], of_k[n + 1], a_k, b);
      });
    }
    float sums[2] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row + lane / 4 + 8 * half, j = token_column + 8 * n + lane % 4 * 2;
        const float beta = v.gates.beta[i];
        float of_x[2], of_z[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float decay = decay_products[i * kRowFloats + j + e];
          const float product = dp[n][2 * half + e], inverse = kCorrects ? -da[n][2 * half + e] : 0.0F;
          const bool is_below = j + e < i;
          of_x[e] = j + e <= i ? decayed(decay, product) : 0.0F;
          of_z[e] = is_below ? beta * decayed(decay, inverse) : 0.0F;
          sums[half] += is_below ? decayed(decay, inverse) * of_k[n][2 * half + e] : 0.0F;
          dg[i * kRowFloats + j + e] =
              product * of_q[n][2 * half + e] + inverse * beta * of_k[n][2 * half + e];
        }
        x.put(i, j, of_x[0], of_x[1]);
        if (kCorrects) z.put(i, j, of_z[0], of_z[1]);
      }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = reduce_lanes(sums[half], 4, Add{});
      if (lane % 4 == 0) v.beta[warp % 4][row + lane / 4 + 8 * half] += sum;
    }
  }

  __device__ void finish_keys() {
#pragma unroll 1
    for (int i = 0; i < kChunkTokens; i += 16) {
      multiply_add<true>(u_ds, x.template load_a<true>(row, i), q, i, key_column);
      const Fragment of_x = x.template load_a<false>(row, i);
      Fragment of_z, of_z_transposed;
      if (kCorrects) {
        of_z = z.template load_a<false>(row, i);
        of_z_transposed = z.template load_a<true>(row, i);
      }
      each_operand<true, kN>(k, i, key_column, [&](int n, const Fragment& b) {
        multiply_add(dy_s[n], dy_s[n + 1], of_x, b);
        if (!kCorrects) return;
        multiply_add(u_ds[n], u_ds[n + 1], of_z, b);
        multiply_add(u_ds[n], u_ds[n + 1], of_z_transposed, b);
      });
    }
    const int tokens = c.tokens_of(chunk);
    const auto store = [&](float* to) {
      return [=, this](const float* s, int i, int j) {
        if (i < tokens)
          *reinterpret_cast<float2*>(to + c.d.token(head, chunk * kChunkTokens + i) * c.d.keys + j) =
              make_float2(s[0], s[1]);
      };
    };
    each_pair(dy_s, row, key_column, store(g.q));
    each_pair(u_ds, row, key_column, store(g.k));
  }

  // Computes the gradients of beta and of the decays.
  __device__ void finish_gates() {
    const int thread = static_cast<int>(threadIdx.x);
    constexpr int kLast = kChunkTokens - 1;
    const auto sum_parts = [](const float(&parts)[4][kChunkTokens], int i) {
      return parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i];
    };
    if (thread < kChunkTokens) {
      float e = dg[kLast * kRowFloats + thread] + sum_parts(v.to_end, thread);
      for (int m = kLast; m > thread; --m) {
        if (m < kLast) e = dg[m * kRowFloats + thread] + decayed(v.decays[m + 1], e);
        dg[m * kRowFloats + thread] = e;
      }
    } else if (thread == 2 * kChunkTokens) {
      float e = 0;
      for (int w = 0; w < kChunkGradientThreads / kLanes; ++w) e += v.corner[w];
      for (int m = kLast; m >= 0; --m) {
        e = sum_parts(v.from_start, m) + (m < kLast ? decayed(v.decays[m + 1], e) : e);
        v.start[m] = e;
      }
    }
    __syncthreads();
    constexpr int kParts = kChunkGradientThreads / kChunkTokens;
    const int m = thread / kParts, part = thread % kParts;
    float sum = part != 0 ? 0 : v.start[m] * (m == 0 ? 1.0F : v.gates.from_start[m - 1]);
    for (int j = part; j < m; j += kParts)
      sum += dg[m * kRowFloats + j] * decay_products[(m - 1) * kRowFloats + j];
    sum = reduce_lanes(sum, kParts, Add{});
    if (part != 0 || m >= c.tokens_of(chunk)) return;
    const int64_t token = c.d.token(head, chunk * kChunkTokens + m);
    g.decay[token] = sum;
    g.beta[token] = v.beta_of_values[m] + sum_parts(v.beta, m);
  }
};

template <bool kCorrects, int kKeys>
__global__ void __launch_bounds__(kChunkGradientThreads, 1)
    chunk_gradients(DeltaChunks c, Gradients<float> g) {
  extern __shared__ __align__(16) unsigned char delta_memory[];
  ChunkGradient<kCorrects, kKeys>(c, g, delta_memory).run();
}

#endif

}  // namespace genesis::cuda::delta
