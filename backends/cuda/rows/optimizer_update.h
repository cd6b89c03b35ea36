// Optimizer updates on the device. Each formula is written once, for tables of tensors, so that one launch updates
// one parameter or all of them.
#pragma once

#include "backends/cuda/device/wide_vector.h"
#include "schema/core/halves.h"

namespace genesis::cuda {

constexpr int64_t kUpdateChunk = 16 << 10;  // elements per block

// One parameter. m and v are f32 (f64 with an f64 parameter) or null; outputs may be the inputs. If an f32 is stored
// as halves, p is its upper half.
struct UpdateTensor {
  const void *p = nullptr, *lower = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  void *p_out = nullptr, *lower_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  int64_t n = 0;
  double weight_decay = 0;
  DType gradient_dtype = DType::f32;
  int32_t first_chunk = 0;

  int64_t chunks() const { return blocks_for(n, kUpdateChunk); }
};

// A scalar of the graph, read when the kernel runs.
struct DeviceScalar {
  const void* data = nullptr;
  DType dtype = DType::f32;

  static DeviceScalar of(const TensorView& v) { return {v.data, v.dtype}; }

#ifdef __CUDACC__
  __device__ double get(double absent) const {
    if (!data) return absent;
    switch (dtype) {
      case DType::f64:
        return *static_cast<const double*>(data);
      case DType::i64:
        return static_cast<double>(*static_cast<const int64_t*>(data));
      case DType::i32:
        return *static_cast<const int32_t*>(data);
      default:
        return static_cast<double>(*static_cast<const float*>(data));
    }
  }
#endif
};

struct UpdateOptions {
  DeviceScalar lr, step, scale;
  double beta1 = 0, beta2 = 0, eps = 0;  // sgd: beta1 is the momentum
  double log_beta1 = 0, log_beta2 = 0;   // adam: 1 - beta^t is -expm1(t log beta)
  double dampening = 0;
  bool nesterov = false, decoupled = true;
  bool skip_nonfinite = false;  // if `scale` is not finite, the outputs are the inputs
};

template <int kMax, class Tensor = UpdateTensor>
struct UpdateTable {
  UpdateOptions options;
  int32_t count = 0, chunks = 0;
  Tensor tensors[kMax];

  bool full() const { return count == kMax; }
  void add(Tensor tensor) {
    if (tensor.n == 0) return;
    tensor.first_chunk = chunks;
    chunks += static_cast<int32_t>(tensor.chunks());
    tensors[count++] = tensor;
  }
};

#ifdef __CUDACC__

// The scalars derived from the options, computed once per block.
struct UpdateScalars {
  double lr, scale, step_size, inverse_root_correction;
  bool first_step, skip;

  __device__ void read(const UpdateOptions& o) {
    const double step = o.step.get(1);
    lr = o.lr.get(0);
    scale = o.scale.get(1);
    first_step = step == 1;
    skip = o.skip_nonfinite && !isfinite(scale);
    step_size = lr / -expm1(step * o.log_beta1);
    inverse_root_correction = 1 / sqrt(-expm1(step * o.log_beta2));
  }
};

template <class W>
struct UpdatedElement {  // one element of the parameter, its gradient and its moments
  W p, g, m, v;
};

template <class W>
struct SgdRule {
  static constexpr bool kM = false, kV = false;
  W lr, scale, weight_decay;
  __device__ SgdRule(const UpdateOptions&, const UpdateTensor& t, const UpdateScalars& s)
      : lr(static_cast<W>(s.lr)),
        scale(static_cast<W>(s.scale)),
        weight_decay(static_cast<W>(t.weight_decay)) {}
  __device__ void operator()(UpdatedElement<W>& s) const { s.p -= lr * (s.g * scale + s.p * weight_decay); }
};

template <class W>
struct MomentumRule {
  static constexpr bool kM = true, kV = false;
  W lr, scale, weight_decay, momentum, fresh;
  bool nesterov, first_step;
  __device__ MomentumRule(const UpdateOptions& o, const UpdateTensor& t, const UpdateScalars& s)
      : lr(static_cast<W>(s.lr)),
        scale(static_cast<W>(s.scale)),
        weight_decay(static_cast<W>(t.weight_decay)),
        momentum(static_cast<W>(o.beta1)),
        fresh(static_cast<W>(1 - o.dampening)),
        nesterov(o.nesterov),
        first_step(s.first_step) {}
  __device__ void operator()(UpdatedElement<W>& s) const {
    const W g = s.g * scale + s.p * weight_decay;
    s.m = first_step ? g : s.m * momentum + g * fresh;
    s.p -= lr * (nesterov ? g + s.m * momentum : s.m);
  }
};

// Returns a * b + c, rounded once. The fused operation is explicit, so that kernels for other storage formats give
// the same bits: otherwise the compiler would choose which products and sums to fuse.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

template <class W>
struct AdamRule {
  static constexpr bool kM = true, kV = true;
  W scale, weight_decay, shrink, fresh1, beta2, fresh2, step_size, inverse_root_correction, eps;
  __device__ AdamRule(const UpdateOptions& o, const UpdateTensor& t, const UpdateScalars& s)
      : scale(static_cast<W>(s.scale)),
        weight_decay(static_cast<W>(o.decoupled ? 0 : t.weight_decay)),
        shrink(static_cast<W>(o.decoupled ? 1 - s.lr * t.weight_decay : 1)),
        fresh1(static_cast<W>(1 - o.beta1)),
        beta2(static_cast<W>(o.beta2)),
        fresh2(static_cast<W>(1 - o.beta2)),
        step_size(static_cast<W>(s.step_size)),
        inverse_root_correction(static_cast<W>(s.inverse_root_correction)),
        eps(static_cast<W>(o.eps)) {}
  __device__ void operator()(UpdatedElement<W>& s) const {
    const W g = multiply_add(s.p, weight_decay, s.g * scale);
    s.m = multiply_add(g - s.m, fresh1, s.m);
    s.v = multiply_add(s.v, beta2, g * g * fresh2);
    const W root = multiply_add(sqrt(s.v), inverse_root_correction, eps);
    s.p = multiply_add(-step_size, s.m / root, s.p * shrink);
  }
};

template <class W>
struct LionRule {
  static constexpr bool kM = true, kV = false;
  W lr, scale, shrink, beta1, fresh1, beta2, fresh2;
  __device__ LionRule(const UpdateOptions& o, const UpdateTensor& t, const UpdateScalars& s)
      : lr(static_cast<W>(s.lr)),
        scale(static_cast<W>(s.scale)),
        shrink(static_cast<W>(1 - s.lr * t.weight_decay)),
        beta1(static_cast<W>(o.beta1)),
        fresh1(static_cast<W>(1 - o.beta1)),
        beta2(static_cast<W>(o.beta2)),
        fresh2(static_cast<W>(1 - o.beta2)) {}
  __device__ void operator()(UpdatedElement<W>& s) const {
    const W g = s.g * scale, direction = s.m * beta1 + g * fresh1;
    s.p = s.p * shrink - lr * (direction > W(0) ? W(1) : direction < W(0) ? W(-1) : direction);
    s.m = s.m * beta2 + g * fresh2;
  }
};

// Reads and writes elements [i, i + N) of a parameter stored as T; i is a multiple of N.
template <class T>
struct Stored {
  using W = wide_t<T>;
  template <int N>
  static __device__ __forceinline__ void read(const UpdateTensor& t, int64_t i, W (&p)[N]) {
    const auto stored = reinterpret_cast<const Pack<T, N>*>(t.p)[i / N];
#pragma unroll
    for (int j = 0; j < N; ++j) p[j] = widen(stored.at[j]);
  }
  template <int N>
  static __device__ __forceinline__ void write(const UpdateTensor& t, int64_t i, const W (&p)[N]) {
    Pack<T, N> stored;
#pragma unroll
    for (int j = 0; j < N; ++j) stored.at[j] = narrow<T>(p[j]);
    reinterpret_cast<Pack<T, N>*>(t.p_out)[i / N] = stored;
  }
};

// The same for an f32 stored as halves.
template <>
struct Stored<Halves> {
  using W = float;
  template <int N>
  static __device__ __forceinline__ void read(const UpdateTensor& t, int64_t i, W (&p)[N]) {
    using P = Pack<uint16_t, N>;
    const P upper = reinterpret_cast<const P*>(t.p)[i / N],
            lower = reinterpret_cast<const P*>(t.lower)[i / N];
#pragma unroll
    for (int j = 0; j < N; ++j) p[j] = __uint_as_float(join_halves({upper.at[j], lower.at[j]}));
  }
  template <int N>
  static __device__ __forceinline__ void write(const UpdateTensor& t, int64_t i, const W (&p)[N]) {
    using P = Pack<uint16_t, N>;
    P upper, lower;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const Halves halves = split_halves(__float_as_uint(p[j]));
      upper.at[j] = halves.upper;
      lower.at[j] = halves.lower;
    }
    reinterpret_cast<P*>(t.p_out)[i / N] = upper;
    reinterpret_cast<P*>(t.lower_out)[i / N] = lower;
  }
};

// Updates elements [i, i + N); i is a multiple of N.
template <class T, int N, class Rule>
__device__ __forceinline__ void update_pack(const UpdateTensor& t, const Rule& rule, bool skip, int64_t i) {
  using W = typename Stored<T>::W;
  using State = Pack<W, N>;
  W p[N];
  Stored<T>::read(t, i, p);
  State m{}, v{};
  W g[N];
  WideVector{t.g, t.gradient_dtype}.at(i / N, W(0), g);
  if constexpr (Rule::kM) m = reinterpret_cast<const State*>(t.m)[i / N];
  if constexpr (Rule::kV) v = reinterpret_cast<const State*>(t.v)[i / N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    UpdatedElement<W> one{p[j], g[j], m.at[j], v.at[j]};
    if (!skip) rule(one);
    p[j] = one.p;
    m.at[j] = one.m;
    v.at[j] = one.v;
  }
  Stored<T>::write(t, i, p);
  if constexpr (Rule::kM) reinterpret_cast<State*>(t.m_out)[i / N] = m;
  if constexpr (Rule::kV) reinterpret_cast<State*>(t.v_out)[i / N] = v;
}

// Returns the last of `count` entries whose first_chunk is not greater than the block's index.
template <class Entry>
__device__ const Entry& entry_of_block(const Entry* entries, int count) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (entries[middle].first_chunk <= static_cast<int>(blockIdx.x))
      low = middle;
    else
      high = middle - 1;
  }
  return entries[low];
}

template <template <class> class RuleOf, class T, int N, int kMax>
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ UpdateTable<kMax> table) {
  __shared__ UpdateScalars scalars;
  if (threadIdx.x == 0) scalars.read(table.options);
  __syncthreads();
  const UpdateTensor& t = entry_of_block(table.tensors, table.count);
  const RuleOf<typename Stored<T>::W> rule(table.options, t, scalars);
  const int64_t first = (blockIdx.x - t.first_chunk) * kUpdateChunk, last = min(t.n, first + kUpdateChunk);
  const int64_t packed = last / N * N;
#pragma unroll 2
  for (int64_t i = first + static_cast<int64_t>(threadIdx.x) * N; i < packed; i += kThreads * N)
    update_pack<T, N>(t, rule, scalars.skip, i);
  if (const int64_t i = packed + threadIdx.x; i < last) update_pack<T, 1>(t, rule, scalars.skip, i);
}

#endif

}  // namespace genesis::cuda
