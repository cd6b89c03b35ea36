// The gradients of gated_delta and mamba2 on a GPU with states in registers. The kernels of gated_delta.cu use it.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/kernels/nn/delta_operands.h"

namespace genesis::cuda {

// One head's gradient in f32 with the columns of states in registers: a warp has some of them, and a block all. Warps meet once per
// token, to add up what they have of the gradients of q and k.
constexpr int kGradientWarps = 16, kGradientColumns = 8;

template <bool kCorrects, int kRows>
struct ColumnGradient {
  static constexpr int kKeys = kRows * kLanes;
  using Matrix = float[kGradientColumns][kRows];
  // The parts of warps: gradients of q and k, then those of beta and decay. Two tokens take turns.
  struct Parts {
    float vectors[2][kGradientWarps][2 * kKeys], gates[2][kGradientWarps][2];
  };

  const Delta<float>& d;
  const Gradients<float>& g;
  Parts& parts;
  int64_t head, size, column;
  int lane, warp, turn = 0;
  Matrix s, gradient;

  __device__ ColumnGradient(const Delta<float>& delta, const Gradients<float>& gradients, Parts& shared)
      : d(delta),
        g(gradients),
        parts(shared),
        head(blockIdx.x),
        size(delta.keys * delta.values),
        lane(static_cast<int>(threadIdx.x) % kLanes),
        warp(static_cast<int>(threadIdx.x) / kLanes) {
    column = warp * kGradientColumns;
  }

  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll
    for (int c = 0; c < kGradientColumns; ++c)
#pragma unroll
      for (int r = 0; r < kRows; ++r) f(c, r);
  }
  __device__ bool has(int c, int r) const { return lane + r * kLanes < d.keys && column + c < d.values; }
  // States in scratch memory are [values, keys].
  __device__ int64_t place(int c, int r) const { return (column + c) * d.keys + lane + r * kLanes; }
  __device__ void store(float* to) const {
    each([&](int c, int r) {
      if (has(c, r)) to[place(c, r)] = s[c][r];
    });
  }
  __device__ void load(const float* from) {
    each([&](int c, int r) { s[c][r] = has(c, r) ? from[place(c, r)] : 0.0F; });
  }
  __device__ void load_rows(const float* from, float (&x)[kRows]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = lane + r * kLanes < d.keys ? from[lane + r * kLanes] : 0.0F;
  }
  __device__ void load_columns(const float* from, float (&x)[kGradientColumns]) const {
#pragma unroll
    for (int c = 0; c < kGradientColumns; ++c) x[c] = column + c < d.values ? from[column + c] : 0.0F;
  }

  // Gives the first kCount values of groups of lanes to their partners, until each lane has all.
  template <int kCount>
  __device__ void spread(float (&x)[kGradientColumns]) const {
    constexpr int kFar = kCount * kLanes / kGradientColumns;
    const bool is_upper = (lane & kFar) != 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float other = from_partner(x[i], kFar), own = x[i];
      x[i] = is_upper ? other : own;
      x[i + kCount] = is_upper ? own : other;
    }
    if constexpr (2 * kCount < kGradientColumns) spread<2 * kCount>(x);
  }
  // Adds up the columns of all lanes: lanes take the sum of one column each, and give it to the others.
  __device__ void sum_lanes(float (&x)[kGradientColumns]) const {
    x[0] = sum_by_lanes(x);
    spread<1>(x);
  }
  __device__ void times_columns(const float (&x)[kRows], const Matrix& m,
                                float (&sums)[kGradientColumns]) const {
#pragma unroll
    for (int c = 0; c < kGradientColumns; ++c) sums[c] = 0;
    each([&](int c, int r) { sums[c] += x[r] * m[c][r]; });
    sum_lanes(sums);
  }

  __device__ void advance(int64_t t) {
    const int64_t token = d.token(head, t);
    const float decay = d.decay[token], beta = d.beta[token];
    float k[kRows], u[kGradientColumns], seen[kGradientColumns] = {};
    load_rows(d.k + d.key_token(head, t) * d.keys, k);
    load_columns(d.v + token * d.values, u);
    each([&](int c, int r) { s[c][r] = decay == 0 ? 0.0F : decay * s[c][r]; });
    if (kCorrects) times_columns(k, s, seen);
    each([&](int c, int r) { s[c][r] += k[r] * (beta * (u[c] - seen[c])); });
  }

  __device__ void run() {
    float *starts = g.scratch + head * g.scratch_of_head, *states = starts + g.chunks * size;
    each([&](int c, int r) {
      const int64_t row = lane + r * kLanes;
      s[c][r] = has(c, r) ? d.state[(head * d.keys + row) * d.values + column + c] : 0.0F;
      gradient[c][r] = 0;
    });
    for (int64_t t = 0; t < d.time; ++t) {
      if (t % g.chunk == 0) store(starts + t / g.chunk * size);
      advance(t);
    }
    for (int64_t first = (g.chunks - 1) * g.chunk; first >= 0; first -= g.chunk) {
      const int64_t end = min(first + g.chunk, d.time);
      load(starts + first / g.chunk * size);
      for (int64_t t = first; t < end; ++t) {
        store(states + (t - first) * size);
        if (t + 1 < end) advance(t);
      }
      for (int64_t t = end - 1; t >= first; --t) {
        load(states + (t - first) * size);
        retreat(t);
      }
    }
    each([&](int c, int r) {
      const int64_t row = lane + r * kLanes;
      if (has(c, r)) g.state[(head * d.keys + row) * d.values + column + c] = gradient[c][r];
    });
  }

  // Takes the gradient through a token; `s` is the state before it.
  __device__ void retreat(int64_t t) {
    const int64_t token = d.token(head, t), key = d.key_token(head, t) * d.keys;
    const float decay = d.decay[token], beta = d.beta[token];
    float k[kRows], q[kRows], dq[kRows] = {}, dk[kRows] = {};
    float dy[kGradientColumns], miss[kGradientColumns], du[kGradientColumns], seen[kGradientColumns] = {};
    load_rows(d.k + key, k);
    load_rows(d.q + key, q);
    load_columns(g.dy + token * d.values, dy);
    load_columns(d.v + token * d.values, miss);
    if (kCorrects) times_columns(k, s, seen);
#pragma unroll
    for (int c = 0; c < kGradientColumns; ++c) miss[c] -= decay == 0 ? 0.0F : decay * seen[c];
    each([&](int c, int r) {
      const float after = (decay == 0 ? 0.0F : decay * s[c][r]) + k[r] * (beta * miss[c]);
      dq[r] += after * dy[c];
      gradient[c][r] += q[r] * dy[c];
    });
    times_columns(k, gradient, du);
    float dbeta = 0, ddecay = 0;
#pragma unroll
    for (int c = 0; c < kGradientColumns; ++c) {
      dbeta += du[c] * miss[c];
      if (lane == c && column + c < d.values) g.v[token * d.values + column + c] = beta * du[c];
    }
    each([&](int c, int r) {
      float& x = gradient[c][r];
      const float kept = decay == 0 ? 0.0F : decay * s[c][r], dv = beta * du[c];
      dk[r] += x * (beta * miss[c]) - (kCorrects ? kept * dv : 0.0F);
      if (kCorrects) x -= k[r] * dv;
      ddecay += x * s[c][r];
      x *= decay;
    });
    add_up(token, dq, dk, dbeta, warp_sum(ddecay));
  }

  __device__ void add_up(int64_t token, const float (&dq)[kRows], const float (&dk)[kRows], float dbeta,
                         float ddecay) {
    turn ^= 1;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      parts.vectors[turn][warp][lane + r * kLanes] = dq[r];
      parts.vectors[turn][warp][kKeys + lane + r * kLanes] = dk[r];
    }
    if (lane == 0) {
      parts.gates[turn][warp][0] = dbeta;
      parts.gates[turn][warp][1] = ddecay;
    }
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x), gate = i - kGradientWarps * kLanes + 2;
    if (i < 2 * kKeys && i % kKeys < d.keys) {
      float sum = 0;
      for (int w = 0; w < kGradientWarps; ++w) sum += parts.vectors[turn][w][i];
      (i < kKeys ? g.q : g.k)[token * d.keys + i % kKeys] = sum;
    }
    if (gate >= 0) {
      float sum = 0;
      for (int w = 0; w < kGradientWarps; ++w) sum += parts.gates[turn][w][gate];
      (gate == 0 ? g.beta : g.decay)[token] = sum;
    }
  }
};

}  // namespace genesis::cuda
