// gated_delta, mamba2 and their gradients. The two ops differ in one thing: gated_delta subtracts from v what the state already has for
// k (`kCorrects`). The names here are those of gated_delta; in mamba2, q is c, k is b, v is
// x and beta is the step. Texts of the usual sizes go in chunks of tokens (delta_chunks/), all others token by token: columns of a state do
// not depend on each other, so in the forward kernel a warp keeps some of them in registers for all tokens. The gradient is computed as
// on the CPU, a block per head, with the states in scratch memory.
#include "schema/ops/nn/gated_delta.h"

#include "backends/common/delta_shape.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/kernels/nn/delta_implementations.h"
#include "backends/cuda/kernels/nn/gated_delta_columns.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kColumns = 2, kWarps = 4, kBlock = 256;
constexpr int64_t kMaxKeys = 256;

template <class T>
Delta<T> delta_of(const KernelContext& c) {
  const DeltaShape s = DeltaShape::of(c.input(0), c.input(2));
  return {s.time,
          s.heads,
          s.batch * s.heads,
          s.keys,
          s.values,
          s.groups,
          c.input(0).as<const T>(),
          c.input(1).as<const T>(),
          c.input(2).as<const T>(),
          c.input(3).as<const T>(),
          c.input(4).as<const T>(),
          c.num_inputs() > 5 ? c.input(5).as<const T>() : nullptr};
}

// Columns of one head's state in a warp: lane l has rows l, l + 32, ... of each.
template <class T, int kRows>
struct Columns {
  T at[kColumns][kRows];

  template <class F>
  __device__ void each(const Delta<T>& d, int64_t head, int64_t column, const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t row = lane + r * kLanes;
        if (row < d.keys && column + c < d.values)
          f(at[c][r], (head * d.keys + row) * d.values + column + c);
        else
          at[c][r] = 0;
      }
  }
  __device__ void store(const Delta<T>& d, int64_t head, int64_t column, T* to) {
    each(d, head, column, [&](T& x, int64_t i) { to[i] = x; });
  }
};

// Returns the last token of a head that is no padding; -1 if there is none.
template <class T>
__device__ int64_t last_token(const Delta<T>& d, int64_t head) {
  int64_t t = d.time - 1;
  while (t >= 0 && d.decay[d.token(head, t)] == 1 && d.beta[d.token(head, t)] == 0) --t;
  return t;
}

template <bool kCorrects, class T, int kRows>
__global__ void __launch_bounds__(kWarps* kLanes) forward(Delta<T> d, T* y, T* before, T* after) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t across = (d.values + kWarps * kColumns - 1) / (kWarps * kColumns);
  const int64_t head = blockIdx.x / across, column = (blockIdx.x % across * kWarps + warp) * kColumns;
  if (column >= d.values) return;
  Columns<T, kRows> s;
  s.each(d, head, column, [&](T& x, int64_t i) { x = d.state ? d.state[i] : T(0); });
  const int64_t last = last_token(d, head);
  if (last < 0) s.store(d, head, column, before);
  for (int64_t t = 0; t < d.time; ++t) {
    if (t == last) s.store(d, head, column, before);
    const int64_t token = d.token(head, t), key = d.key_token(head, t);
    const T decay = d.decay[token], beta = d.beta[token];
    T k[kRows], q[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = lane + r * kLanes;
      k[r] = row < d.keys ? d.k[key * d.keys + row] : T(0);
      q[r] = row < d.keys ? d.q[key * d.keys + row] : T(0);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      T seen = 0, result = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        s.at[c][r] = decay == 0 ? T(0) : decay * s.at[c][r];
        if (kCorrects) seen += k[r] * s.at[c][r];
      }
      const bool is_there = column + c < d.values;
      if (kCorrects) seen = warp_sum(seen);
      const T u = beta * ((is_there ? d.v[token * d.values + column + c] : T(0)) - seen);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        s.at[c][r] += k[r] * u;
        result += q[r] * s.at[c][r];
      }
      result = warp_sum(result);
      if (lane == 0 && is_there) y[token * d.values + column + c] = result;
    }
  }
  s.store(d, head, column, after);
}

// One head's gradient; a block calls every function.
template <bool kCorrects, class T>
struct Backward {
  const Delta<T>& d;
  const Gradients<T>& g;
  int64_t head, size;
  T *starts, *states, *gradient, *u, *du;

  __device__ Backward(const Delta<T>& delta, const Gradients<T>& gradients, int64_t number)
      : d(delta), g(gradients), head(number), size(delta.keys * delta.values) {
    starts = g.scratch + head * g.scratch_of_head;
    states = starts + g.chunks * size;
    gradient = states + g.chunk * size;
    u = gradient + size;
    du = u + d.values;
  }

  template <class F>
  __device__ void each(int64_t count, const F& f) {
    for (int64_t i = threadIdx.x; i < count; i += kBlock) f(i);
    __syncthreads();
  }
  __device__ T times_column(const T* x, const T* state, int64_t column) const {
    T sum = 0;
    for (int64_t i = 0; i < d.keys; ++i) sum += x[i] * state[i * d.values + column];
    return sum;
  }

  __device__ void advance(int64_t t, const T* from, T* to) {
    const int64_t token = d.token(head, t);
    const T decay = d.decay[token];
    each(size, [&](int64_t i) { to[i] = decay == 0 ? T(0) : decay * from[i]; });
    const T* k = d.k + d.key_token(head, t) * d.keys;
    each(d.values, [&](int64_t j) {
      u[j] = d.beta[token] * (d.v[token * d.values + j] - (kCorrects ? times_column(k, to, j) : T(0)));
    });
    each(size, [&](int64_t i) { to[i] += k[i / d.values] * u[i % d.values]; });
  }

  __device__ void run() {
    each(size, [&](int64_t i) { gradient[i] = d.state[head * size + i]; });
    for (int64_t t = 0; t < d.time; ++t) {
      if (t % g.chunk == 0) each(size, [&](int64_t i) { starts[t / g.chunk * size + i] = gradient[i]; });
      advance(t, gradient, gradient);
    }
    each(size, [&](int64_t i) { gradient[i] = 0; });
    for (int64_t first = (g.chunks - 1) * g.chunk; first >= 0; first -= g.chunk) {
      const int64_t end = min(first + g.chunk, d.time);
      const T* start = starts + first / g.chunk * size;
      for (int64_t t = first; t < end; ++t)
        advance(t, t == first ? start : states + (t - first - 1) * size, states + (t - first) * size);
      for (int64_t t = end - 1; t >= first; --t)
        retreat(t, t == first ? start : states + (t - first - 1) * size, states + (t - first) * size);
    }
    each(size, [&](int64_t i) { g.state[head * size + i] = gradient[i]; });
  }

  // Calls row(i, lane) for each row of a state, in a warp.
  template <class F>
  __device__ void each_row(const F& row) {
    for (int64_t i = threadIdx.x / kLanes; i < d.keys; i += kBlock / kLanes)
      row(i, static_cast<int64_t>(threadIdx.x % kLanes));
    __syncthreads();
  }

  __device__ void retreat(int64_t t, const T* before, const T* after) {
    const int64_t token = d.token(head, t), keys = token * d.keys, values = token * d.values;
    const T decay = d.decay[token], beta = d.beta[token];
    const T *q = d.q + d.key_token(head, t) * d.keys, *k = d.k + d.key_token(head, t) * d.keys;
    each_row([&](int64_t i, int64_t lane) {
      T sum = 0;
      for (int64_t j = lane; j < d.values; j += kLanes) {
        sum += after[i * d.values + j] * g.dy[values + j];
        gradient[i * d.values + j] += q[i] * g.dy[values + j];
      }
      sum = warp_sum(sum);
      if (lane == 0) g.q[keys + i] = sum;
    });
    each(d.values, [&](int64_t j) {
      const T seen = !kCorrects || decay == 0 ? T(0) : decay * times_column(k, before, j);
      du[j] = times_column(k, gradient, j);
      u[j] = d.v[values + j] - seen;
      g.v[values + j] = beta * du[j];
    });
    if (threadIdx.x < kLanes) {
      T sum = 0;
      for (int64_t j = threadIdx.x; j < d.values; j += kLanes) sum += du[j] * u[j];
      sum = warp_sum(sum);
      if (threadIdx.x == 0) g.beta[token] = sum;
    }
    each_row([&](int64_t i, int64_t lane) {
      T sum = 0;
      for (int64_t j = lane; j < d.values; j += kLanes) {
        const T kept = decay == 0 ? T(0) : decay * before[i * d.values + j];
        sum += gradient[i * d.values + j] * beta * u[j] - (kCorrects ? kept * g.v[values + j] : T(0));
      }
      sum = warp_sum(sum);
      if (lane == 0) g.k[keys + i] = sum;
    });
    finish_state(token, k, before);
  }

  // Takes the gradient of the state through the token, and sums that of the decay, row by row in one warp.
  __device__ void finish_state(int64_t token, const T* k, const T* before) {
    if (kCorrects)
      each(size, [&](int64_t i) { gradient[i] -= k[i / d.values] * g.v[token * d.values + i % d.values]; });
    if (threadIdx.x < kLanes) {
      T sum = 0;
      for (int64_t i = threadIdx.x; i < size; i += kLanes) sum += gradient[i] * before[i];
      sum = warp_sum(sum);
      if (threadIdx.x == 0) g.decay[token] = sum;
    }
    __syncthreads();
    each(size, [&](int64_t i) { gradient[i] *= d.decay[token]; });
  }
};

template <bool kCorrects, class T>
__global__ void __launch_bounds__(kBlock) backward(Delta<T> d, Gradients<T> g) {
  Backward<kCorrects, T>(d, g, blockIdx.x).run();
}

template <bool kCorrects, int kRows>
__global__ void __launch_bounds__(kGradientWarps* kLanes)
    backward_in_registers(Delta<float> d, Gradients<float> g) {
  __shared__ typename ColumnGradient<kCorrects, kRows>::Parts parts;
  ColumnGradient<kCorrects, kRows>(d, g, parts).run();
}

// Adds up the vectors of a group's heads.
template <class T>
struct SumOfHeads {
  const T* of_heads;
  T* of_groups;
  int64_t each, keys;

  __device__ void operator()(int64_t i) const {
    const T* first = of_heads + i / keys * each * keys + i % keys;
    T sum = 0;
    for (int64_t head = 0; head < each; ++head) sum += first[head * keys];
    of_groups[i] = sum;
  }
};

template <bool kCorrects, class T>
void start_forward(const KernelContext& c) {
  const Delta<T> d = delta_of<T>(c);
  const auto kernel = d.keys <= 32    ? forward<kCorrects, T, 1>
                      : d.keys <= 64  ? forward<kCorrects, T, 2>
                      : d.keys <= 128 ? forward<kCorrects, T, 4>
                                      : forward<kCorrects, T, 8>;
  start(c, kernel, d.heads * blocks_for(d.values, kWarps * kColumns), kWarps * kLanes, 0, d,
        c.output(0).as<T>(), c.output(1).as<T>(), c.output(2).as<T>());
}

// Calls start_kernel(gradients), which computes the gradients of q and k of each head, and adds up those of groups. They lie behind
// the first `used` elements of the scratch memory.
template <class T, class F>
void start_backward(const KernelContext& c, int64_t used, const F& start_kernel) {
  const DeltaShape s = DeltaShape::of(c.input(0), c.input(2));
  T* const scratch = reinterpret_cast<T*>(c.scratch);
  T *dq = c.output(0).as<T>(), *dk = c.output(1).as<T>();
  const bool are_shared = s.has_shares();
  if (are_shared) {
    dq = scratch + used;
    dk = dq + s.shares_of_heads() / 2;
  }
  const Gradients<T> g{c.input(6).as<const T>(),
                       dq,
                       dk,
                       c.output(2).as<T>(),
                       c.output(3).as<T>(),
                       c.output(4).as<T>(),
                       c.output(5).as<T>(),
                       scratch,
                       s.gradient_scratch(),
                       s.chunk(),
                       s.chunks()};
  start_kernel(g);
  if (!are_shared) return;
  const int64_t count = c.output(0).numel(), each = s.heads / std::max<int64_t>(1, s.groups);
  for_each(c, count, SumOfHeads<T>{dq, c.output(0).as<T>(), each, s.keys});
  for_each(c, count, SumOfHeads<T>{dk, c.output(1).as<T>(), each, s.keys});
}
int64_t scratch_of_tokens(const DeltaShape& s) { return s.batch * s.heads * s.gradient_scratch(); }
int64_t scratch_of_tokens(const KernelContext& c) {
  return scratch_of_tokens(DeltaShape::of(c.input(0), c.input(2)));
}
// Elements ahead of the shares where the chunks or, on a chip that they do not take, the kernels below run.
int64_t scratch_of_chunks(const DeltaShape& s) {
  return std::max<int64_t>(delta_chunks_gradient_scratch(s) / static_cast<int64_t>(sizeof(float)),
                           scratch_of_tokens(s));
}

template <bool kCorrects>
void run_gated_delta(const KernelContext& c) {
  c.output().dtype == DType::f64 ? start_forward<kCorrects, double>(c) : start_forward<kCorrects, float>(c);
}
template <bool kCorrects>
void run_gradient(const KernelContext& c) {
  const auto run_in = [&]<class T>(TypeTag<T>) {
    start_backward<T>(c, scratch_of_tokens(c), [&](const Gradients<T>& g) {
      const Delta<T> d = delta_of<T>(c);
      start(c, backward<kCorrects, T>, d.heads, kBlock, 0, d, g);
    });
  };
  c.output().dtype == DType::f64 ? run_in(TypeTag<double>{}) : run_in(TypeTag<float>{});
}
template <bool kCorrects>
void start_registers(const KernelContext& c, const Delta<float>& d, const Gradients<float>& g) {
  const auto kernel = d.keys <= 32   ? backward_in_registers<kCorrects, 1>
                      : d.keys <= 64 ? backward_in_registers<kCorrects, 2>
                                     : backward_in_registers<kCorrects, 4>;
  start(c, kernel, d.heads, kGradientWarps * kLanes, 0, d, g);
}
template <bool kCorrects>
void run_gradient_in_registers(const KernelContext& c) {
  start_backward<float>(c, scratch_of_tokens(c), [&](const Gradients<float>& g) {
    start_registers<kCorrects>(c, delta_of<float>(c), g);
  });
}

template <bool kCorrects>
void run_chunks(const KernelContext& c) {
  if (!start_delta_chunks(c, delta_of<float>(c), kCorrects)) start_forward<kCorrects, float>(c);
}
template <bool kCorrects>
void run_gradient_in_chunks(const KernelContext& c) {
  const DeltaShape s = DeltaShape::of(c.input(0), c.input(2));
  start_backward<float>(c, scratch_of_chunks(s), [&](const Gradients<float>& g) {
    const Delta<float> d = delta_of<float>(c);
    if (start_delta_chunk_gradients(c, d, g, kCorrects)) return;
    if (s.values <= kGradientWarps * kGradientColumns) return start_registers<kCorrects>(c, d, g);
    start(c, backward<kCorrects, float>, d.heads, kBlock, 0, d, g);
  });
}

std::optional<std::string> decline_registers(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  if (query.inputs[0].dtype != DType::f32) return "takes f32 only";
  if (s.keys > 4 * kLanes || s.values > kGradientWarps * kGradientColumns)
    return "states of more than 128 x 128 elements";
  return std::nullopt;
}

std::optional<std::string> decline(const KernelQuery& query) {
  if (query.inputs[0].shape[3].value() > kMaxKeys)
    return "keys of more than " + std::to_string(kMaxKeys) + " elements";
  return std::nullopt;
}

int64_t gated_delta_scratch(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  return s.all_gradient_scratch() * static_cast<int64_t>(size_of(query.inputs[0].dtype));
}

int64_t chunks_scratch_bytes(const KernelQuery& query) {
  return delta_chunks_scratch(DeltaShape::of(query.inputs[0], query.inputs[2]));
}
int64_t chunks_gradient_scratch_bytes(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  return (scratch_of_chunks(s) + s.shares_of_heads()) * static_cast<int64_t>(sizeof(float));
}

template <bool kCorrects>
constexpr KernelImpl kChunks = {.name = "chunks",
                                .run = run_chunks<kCorrects>,
                                .can_run = delta_chunks_decline,
                                .scratch_bytes = chunks_scratch_bytes};
template <bool kCorrects>
constexpr KernelImpl kGradientChunks = {.name = "chunks",
                                        .run = run_gradient_in_chunks<kCorrects>,
                                        .can_run = delta_chunks_decline,
                                        .scratch_bytes = chunks_gradient_scratch_bytes};

constexpr OpKernel kKernels[] = {
    {"gated_delta", kChunks<true>},
    {"gated_delta", {.name = "columns", .run = run_gated_delta<true>, .can_run = decline}},
    {"gated_delta_grad", kGradientChunks<true>},
    {"gated_delta_grad",
     {.name = "registers",
      .run = run_gradient_in_registers<true>,
      .can_run = decline_registers,
      .scratch_bytes = gated_delta_scratch}},
    {"gated_delta_grad", {.name = "heads", .run = run_gradient<true>, .scratch_bytes = gated_delta_scratch}},
    {"mamba2", kChunks<false>},
    {"mamba2", {.name = "columns", .run = run_gated_delta<false>, .can_run = decline}},
    {"mamba2_grad", kGradientChunks<false>},
    {"mamba2_grad",
     {.name = "registers",
      .run = run_gradient_in_registers<false>,
      .can_run = decline_registers,
      .scratch_bytes = gated_delta_scratch}},
    {"mamba2_grad", {.name = "heads", .run = run_gradient<false>, .scratch_bytes = gated_delta_scratch}}};

}  // namespace

std::span<const OpKernel> gated_delta_kernels() { return kKernels; }

}  // namespace genesis::cuda
