// layer_norm, rms_norm and their gradients. A row is read from memory once and stays in the cache for the statistics and the
// result. Sums over rows (dweight, dbias) are kept per block of rows and added in one fixed order.
#include "backends/cpu/kernels/nn/norm.h"

#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"
#include "schema/core/checked_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nn/norm.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

#include "backends/cpu/simd/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

struct Statistics {
  Vec mean, inverse;  // 1 / sqrt(variance + eps)
};

// Computes the statistics of a row. The variance is taken around the mean, in a second pass over the cached row: in a single pass
// it would suffer from cancellation.
template <bool kCenter, class T>
Statistics statistics_of(const T* x, int64_t n, double eps) {
  const auto count = static_cast<float>(n);
  Vec mean = hn::Zero(kF32);
  if constexpr (kCenter)
    mean = hn::Set(kF32, sum_row(n, [&](int64_t i, auto part) { return load(x + i, part); }) / count);
  const float squares = sum_row(n, [&](int64_t i, auto part) {
    const Vec d = only(hn::Sub(load(x + i, part), mean), part);
    return hn::Mul(d, d);
  });
  return {mean, hn::Set(kF32, static_cast<float>(1 / std::sqrt(double{squares / count} + eps)))};
}

template <class P>
HWY_INLINE Vec load_or(const float* p, int64_t i, P part, float absent) {
  return p ? load(p + i, part) : hn::Set(kF32, absent);
}

template <bool kCenter, bool kStream, class T>
void norm_range(const NormJob& job, int64_t first, int64_t last) {
  const auto* weight = static_cast<const float*>(job.weight);
  const auto* bias = static_cast<const float*>(job.bias);
  for (int64_t row = first; row < last; ++row) {
    const T* x = static_cast<const T*>(job.x) + row * job.n;
    T* y = static_cast<T*>(job.y) + row * job.n;
    const Statistics s = statistics_of<kCenter>(x, job.n, job.eps);
    each_vector(job.n, [&](int64_t i, auto part) {
      prefetch(x + job.n + i);  // the next row
      const Vec normal = hn::Mul(hn::Sub(load(x + i, part), s.mean), s.inverse);
      put<kStream>(hn::MulAdd(normal, load_or(weight, i, part, 1), load_or(bias, i, part, 0)), y + i, part);
    });
  }
}

// The sums that the gradient of a row needs: with g = dy weight and z the normalized row, dx = (g - mean(g) - z mean(g z)) /
// sigma; rms_norm has no mean(g).
struct GradientSums {
  // GCC compiles implicit constructors without the instructions of the target, where Arm's vectors cannot be made.
  GradientSums() {}
  GradientSums(Vec m, Vec i, Vec g, Vec gz) : mean(m), inverse(i), mean_g(g), mean_gz(gz) {}

  Vec mean, inverse, mean_g, mean_gz;
};

template <bool kCenter, class T>
GradientSums sums_of(const NormJob& job, const T* x, const T* dy) {
  const auto* weight = static_cast<const float*>(job.weight);
  const auto count = static_cast<float>(job.n);
  Vec mean = hn::Zero(kF32);
  if constexpr (kCenter)
    mean = hn::Set(kF32, sum_row(job.n, [&](int64_t i, auto part) { return load(x + i, part); }) / count);
  Vec squares = hn::Zero(kF32), g_sum = squares, gz_sum = squares;
  each_vector(job.n, [&](int64_t i, auto part) {
    const Vec z = only(hn::Sub(load(x + i, part), mean), part);
    const Vec g = hn::Mul(load(dy + i, part), load_or(weight, i, part, 1));  // zero in lanes outside the row
    squares = hn::MulAdd(z, z, squares);
    gz_sum = hn::MulAdd(g, z, gz_sum);
    if constexpr (kCenter) g_sum = hn::Add(g_sum, g);
  });
  const double variance = double{sum_lanes(squares) / count} + job.eps;
  const auto inverse = static_cast<float>(1 / std::sqrt(variance));
  return {mean, hn::Set(kF32, inverse), hn::Set(kF32, sum_lanes(g_sum) / count),
          hn::Set(kF32, sum_lanes(gz_sum) / count * inverse)};
}

// Computes kRows rows together, so that the sums over rows are loaded and stored once for all of them.
template <bool kCenter, bool kStream, int kRows, class T>
void gradient_rows(const NormJob& job, int64_t first, float* dweight, float* dbias) {
  const auto* weight = static_cast<const float*>(job.weight);
  const T *x[kRows], *dy[kRows];
  T* dx[kRows];
  GradientSums s[kRows];
  for (int r = 0; r < kRows; ++r) {
    x[r] = static_cast<const T*>(job.x) + (first + r) * job.n;
    dy[r] = static_cast<const T*>(job.dy) + (first + r) * job.n;
    dx[r] = static_cast<T*>(job.y) + (first + r) * job.n;
    s[r] = sums_of<kCenter>(job, x[r], dy[r]);
  }
  each_vector(job.n, [&](int64_t i, auto part) {
    const Vec w = load_or(weight, i, part, 1);
    Vec dw = hn::Zero(kF32), db = dw;
    for (int r = 0; r < kRows; ++r) {
      prefetch(x[r] + kRows * job.n + i);
      prefetch(dy[r] + kRows * job.n + i);
      const Vec d = load(dy[r] + i, part),
                z = hn::Mul(hn::Sub(load(x[r] + i, part), s[r].mean), s[r].inverse);
      dw = hn::MulAdd(d, z, dw);
      db = hn::Add(db, d);
      const Vec g = kCenter ? hn::MulSub(d, w, s[r].mean_g) : hn::Mul(d, w);
      put<kStream>(hn::Mul(hn::NegMulAdd(z, s[r].mean_gz, g), s[r].inverse), dx[r] + i, part);
    }
    if (dweight) store(hn::Add(dw, load(dweight + i, part)), dweight + i, part);
    if (dbias) store(hn::Add(db, load(dbias + i, part)), dbias + i, part);
  });
}

template <bool kCenter, bool kStream, class T>
void gradient_range(const NormJob& job, int64_t first, int64_t last, float* dweight, float* dbias) {
  constexpr int kRows = 2;  // with more streams of rows, L1 cache sets overflow
  int64_t row = first;
  for (; row + kRows <= last; row += kRows)
    gradient_rows<kCenter, kStream, kRows, T>(job, row, dweight, dbias);
  for (; row < last; ++row) gradient_rows<kCenter, kStream, 1, T>(job, row, dweight, dbias);
}

template <bool kCenter, bool kStream, class T>
void typed_rows(const NormJob& job, int64_t first, int64_t last, float* dweight, float* dbias) {
  if (job.dy) return gradient_range<kCenter, kStream, T>(job, first, last, dweight, dbias);
  norm_range<kCenter, kStream, T>(job, first, last);
}

template <class T>
void rows_of(const NormJob& job, int64_t first, int64_t last, float* dweight, float* dbias) {
  const auto run = job.center ? (job.stream ? typed_rows<true, true, T> : typed_rows<true, false, T>)
                              : (job.stream ? typed_rows<false, true, T> : typed_rows<false, false, T>);
  run(job, first, last, dweight, dbias);
}

// Computes rows [first, last). The sums over these rows are added to dweight and dbias if they are not null.
void norm_rows(const NormJob& job, int64_t first, int64_t last, float* dweight, float* dbias) {
  dispatch_rows(job.dtype, [&]<class T>(TypeTag<T>) { rows_of<T>(job, first, last, dweight, dbias); });
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <optional>

#include "backends/cpu/parallel/parallel.h"
#include "schema/ops/nn/norm.h"

namespace genesis::cpu {

HWY_EXPORT(norm_rows);

namespace {

void run_rows(const NormJob& job, int64_t first, int64_t last, void* dweight, void* dbias) {
  if (job.dtype != DType::f64)
    return HWY_DYNAMIC_DISPATCH(norm_rows)(job, first, last, static_cast<float*>(dweight),
                                           static_cast<float*>(dbias));
  if (job.dy)
    norm_gradient_rows_f64(job, first, last, static_cast<double*>(dweight), static_cast<double*>(dbias));
  else
    norm_rows_f64(job, first, last);
}

int64_t normalized_size(const TensorView& x, int64_t num_axes) {
  int64_t n = 1;
  for (int64_t i = 0; i < num_axes; ++i) n *= x.dim(static_cast<int>(-1 - i));
  return n;
}

// Returns `vector` itself if it has the dtype of the arithmetic, else its conversion, which takes memory from `scratch`.
const void* widened(const TensorView& vector, DType to, std::byte*& scratch) {
  if (vector.dtype == to) return vector.data;
  void* wide = scratch;
  const int64_t n = vector.numel();
  dispatch(vector.dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < n; ++i) {
      if (to == DType::f64)
        static_cast<double*>(wide)[i] = static_cast<double>(vector.as<T>()[i]);
      else
        static_cast<float*>(wide)[i] = static_cast<float>(vector.as<T>()[i]);
    }
  });
  scratch += n * static_cast<int64_t>(size_of(to));
  return wide;
}

NormJob job_of(const KernelContext& c, double eps, int64_t num_axes, bool center) {
  const TensorView& x = c.input(0);
  NormJob job{.dtype = x.dtype, .x = x.data, .y = c.output().data, .eps = eps, .center = center};
  job.n = normalized_size(x, num_axes);
  job.stream = streams(c.output(), job.n, x.data);
  return job;
}

int64_t row_bytes(const NormJob& job, int tensors) {
  return job.n * tensors * static_cast<int64_t>(size_of(job.dtype));
}

void run_forward(const KernelContext& c, NormJob job, bool has_weight, bool has_bias) {
  if (c.input(0).numel() == 0) return;
  std::byte* scratch = c.scratch;
  if (has_weight) job.weight = widened(c.input(1), wide_dtype(job.dtype), scratch);
  if (has_bias) job.bias = widened(c.input(has_weight ? 2 : 1), wide_dtype(job.dtype), scratch);
  parallel_rows(c.input(0).numel() / job.n, row_bytes(job, 2),
                [&](int64_t first, int64_t last) { run_rows(job, first, last, nullptr, nullptr); });
}

// sums[j] = the partial sums of column j of all blocks, added in order.
template <class T>
void add_blocks(const T* partial, int64_t blocks, int64_t n, T* sums) {
  parallel_ranges(n, 1024, [&](int64_t first, int64_t last) {
    std::fill(sums + first, sums + last, T(0));
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t j = first; j < last; ++j) sums[j] += partial[b * n + j];
  });
}

// Takes memory from `scratch` for the sums of n columns of each block; returns null if not wanted.
template <class T>
T* partial_sums(bool wanted, int64_t blocks, int64_t n, std::byte*& scratch) {
  if (!wanted) return nullptr;
  T* sums = reinterpret_cast<T*>(scratch);
  scratch += blocks * n * static_cast<int64_t>(sizeof(T));
  return sums;
}

// Returns the sums of block b, set to zero.
template <class T>
T* cleared(T* sums, int64_t b, int64_t n) {
  if (sums) std::fill_n(sums + b * n, n, T(0));
  return sums ? sums + b * n : nullptr;
}

// Adds the residual to dx of rows [first, last).
void add_residual(const NormJob& job, const void* residual, int64_t first, int64_t last) {
  dispatch(job.dtype, [&]<class T>(TypeTag<T>) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T* from = static_cast<const T*>(residual);
    T* dx = static_cast<T*>(job.y);
    for (int64_t i = first * job.n; i < last * job.n; ++i)
      dx[i] = static_cast<T>(static_cast<Wide>(dx[i]) + static_cast<Wide>(from[i]));
  });
}

// Further work on the rows of a gradient, besides dx, dweight and dbias.
struct Beside {
  const void* residual = nullptr;
  std::optional<NormJob> forward;  // recomputes the norm's own output
};

// Processes few rows at a time, so that they are still in the cache for the further work. The output comes first, since dx may
// overwrite x.
void run_gradient_rows(const NormJob& job, const Beside& beside, int64_t first, int64_t last, void* dweight,
                       void* dbias) {
  if (!beside.residual && !beside.forward) return run_rows(job, first, last, dweight, dbias);
  const int64_t step = std::max<int64_t>(2, (16 << 10) / std::max<int64_t>(1, row_bytes(job, 1)) / 2 * 2);
  for (int64_t row = first; row < last; row += step) {
    const int64_t end = std::min(last, row + step);
    if (beside.forward) run_rows(*beside.forward, row, end, nullptr, nullptr);
    run_rows(job, row, end, dweight, dbias);
    if (beside.residual) add_residual(job, beside.residual, row, end);
  }
}

template <class T>
void run_gradient(const KernelContext& c, NormJob job, const Beside& beside, bool want_weight, bool want_bias,
                  std::byte* scratch) {
  const int64_t rows = c.input(0).numel() / std::max<int64_t>(job.n, 1);
  const RowBlocks blocks = RowBlocks::of(rows, job.n);
  T* dweight = partial_sums<T>(want_weight, blocks.count, job.n, scratch);
  T* dbias = partial_sums<T>(want_bias, blocks.count, job.n, scratch);
  parallel_chunks(blocks.count, [&](int64_t b) {
    T* dw = cleared(dweight, b, job.n);
    T* db = cleared(dbias, b, job.n);
    run_gradient_rows(job, beside, b * blocks.rows_each, std::min(rows, (b + 1) * blocks.rows_each), dw, db);
  });
  if (want_weight) add_blocks(dweight, blocks.count, job.n, c.output(1).as<T>());
  if (want_bias) add_blocks(dbias, blocks.count, job.n, c.output(want_weight ? 2 : 1).as<T>());
}

template <class Op>
constexpr bool kHasBias = requires(const Op& op) {
  op.has_bias;
};

template <class Op>
void run_backward(const KernelContext& c, const Op& op) {
  NormJob job = job_of(c, op.eps, op.num_axes, kHasBias<Op>);
  std::byte* scratch = c.scratch;
  job.dy = c.input(1).data;
  if (op.has_weight) job.weight = widened(c.input(2), wide_dtype(job.dtype), scratch);
  Beside beside;
  if (op.has_residual) beside.residual = c.inputs.back().data;
  if (op.with_output) {
    NormJob& forward = beside.forward.emplace(job);
    forward.dy = nullptr;
    forward.y = c.outputs.back().data;
    if constexpr (kHasBias<Op>)
      if (op.has_bias) forward.bias = widened(c.input(op.has_weight ? 3 : 2), wide_dtype(job.dtype), scratch);
  }
  job.stream = job.stream && job.y != job.dy && !beside.residual;
  bool want_bias = false;
  if constexpr (kHasBias<Op>) want_bias = op.want_bias;
  if (job.dtype == DType::f64)
    run_gradient<double>(c, job, beside, op.want_weight, want_bias, scratch);
  else
    run_gradient<float>(c, job, beside, op.want_weight, want_bias, scratch);
}

// Scratch memory holds the conversions of weight and bias, then the partial sums of the gradients.
int64_t scratch_for(const KernelQuery& query, int64_t num_axes, int converted, int sums) {
  const TensorType& x = query.inputs[0];
  int64_t n = 1;
  for (int64_t i = 0; i < num_axes; ++i) n *= x.shape[static_cast<int>(x.shape.rank() - 1 - i)].value();
  const int64_t rows = x.numel() / std::max<int64_t>(n, 1);
  const CheckedSize vectors = CheckedSize(sums) * RowBlocks::of(rows, n).count + converted;
  return (vectors * n * static_cast<int64_t>(size_of(wide_dtype(x.dtype)))).value();
}

template <class Op>
int64_t forward_scratch(const KernelQuery& query) {
  return scratch_for(query, from_attributes<Op>(query.attributes).num_axes,
                     static_cast<int>(query.inputs.size()) - 1, 0);
}

template <class Op>
int64_t backward_scratch(const KernelQuery& query) {
  const auto op = from_attributes<Op>(query.attributes);
  return scratch_for(query, op.num_axes, static_cast<int>(query.inputs.size()) - 2,
                     static_cast<int>(query.outputs.size()) - 1 - op.with_output);
}

void layer_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNorm>();
  run_forward(c, job_of(c, op.eps, op.num_axes, true), op.has_weight, op.has_bias);
}

void rms_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNorm>();
  run_forward(c, job_of(c, op.eps, op.num_axes, false), op.has_weight, false);
}

void layer_norm_grad(const KernelContext& c) { run_backward(c, c.attributes<ops::LayerNormGrad>()); }
void rms_norm_grad(const KernelContext& c) { run_backward(c, c.attributes<ops::RmsNormGrad>()); }

constexpr OpKernel kKernels[] = {
    {"layer_norm", {.name = "rows", .run = layer_norm, .scratch_bytes = forward_scratch<ops::LayerNorm>}},
    {"rms_norm", {.name = "rows", .run = rms_norm, .scratch_bytes = forward_scratch<ops::RmsNorm>}},
    {"layer_norm_grad",
     {.name = "rows", .run = layer_norm_grad, .scratch_bytes = backward_scratch<ops::LayerNormGrad>}},
    {"rms_norm_grad",
     {.name = "rows", .run = rms_norm_grad, .scratch_bytes = backward_scratch<ops::RmsNormGrad>}}};

}  // namespace

std::span<const OpKernel> norm_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
