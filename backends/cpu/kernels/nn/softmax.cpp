// Softmax, log-softmax, causal softmax and their gradients. Along the last axis, a row is read from memory once and stays in the
// cache until its result is written. Along another axis, vectors of columns are processed instead of rows.
#include "backends/cpu/kernels/nn/softmax.h"

#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nn/softmax.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

#include "backends/cpu/simd/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

constexpr int64_t kRowBuffer = 16384;  // elements; longer rows compute their exponentials twice

template <class T>
void fill(T* y, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(value);
}

// y = exp(scale (x - max)) / sum, with the exponentials in `e`, a row of f32.
template <bool kStream, class T>
void short_softmax(const T* x, T* y, int64_t n, float scale, float* e) {
  const ExpScale exp_scale(scale);
  const Vec max = hn::Set(kF32, row_max(x, n));
  const float total = sum_row(n, [&](int64_t i, auto part) {
    prefetch(x + n + i);  // the next row
    const Vec v = only(exp_nonpositive(hn::Sub(load(x + i, part), max), exp_scale), part);
    store(v, e + i, part);
    return v;
  });
  const Vec inverse = hn::Set(kF32, 1.0f / total);
  each_vector(n,
              [&](int64_t i, auto part) { put<kStream>(hn::Mul(load(e + i, part), inverse), y + i, part); });
}

template <bool kStream, class T>
void long_softmax(const T* x, T* y, int64_t n, float scale) {
  const MaxSum row = row_max_sum(x, n, scale);
  const ExpScale exp_scale(scale);
  const Vec max = hn::Set(kF32, row.max), inverse = hn::Set(kF32, 1.0f / row.sum);
  each_vector(n, [&](int64_t i, auto part) {
    prefetch(x + n + i);
    const Vec e = exp_nonpositive(hn::Sub(load(x + i, part), max), exp_scale);
    put<kStream>(hn::Mul(e, inverse), y + i, part);
  });
}

template <bool kStream, class T>
void log_softmax_row(const T* x, T* y, int64_t n) {
  const MaxSum row = row_max_sum(x, n);
  const Vec max = hn::Set(kF32, row.max), log_sum = hn::Set(kF32, static_cast<float>(std::log(row.sum)));
  each_vector(n, [&](int64_t i, auto part) {
    prefetch(x + n + i);
    put<kStream>(hn::Sub(hn::Sub(load(x + i, part), max), log_sum), y + i, part);
  });
}

template <class T, bool kStream>
void softmax_range(const SoftmaxJob& job, int64_t first, int64_t last) {
  HWY_ALIGN float buffer[kRowBuffer];
  for (int64_t row = first; row < last; ++row) {
    const T* x = static_cast<const T*>(job.x) + row * job.n;
    T* y = static_cast<T*>(job.y) + row * job.n;
    const int64_t seen = job.visible(row);
    const auto scale = static_cast<float>(job.scale);
    float* e = buffer;
    if constexpr (!kStream && std::is_same_v<T, float>) e = y;
    if (job.log)
      log_softmax_row<kStream>(x, y, seen);
    else if (seen <= kRowBuffer)
      short_softmax<kStream>(x, y, seen, scale, e);
    else
      long_softmax<kStream>(x, y, seen, scale);
    fill(y + seen, job.n - seen, seen == 0 ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  }
}

// dx = scale y (dy - sum(y dy)), or dx = dy - exp(y) sum(dy) for log_softmax.
template <class T, bool kStream>
void gradient_range(const SoftmaxJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const T* y = static_cast<const T*>(job.x) + row * job.n;
    const T* dy = static_cast<const T*>(job.dy) + row * job.n;
    T* dx = static_cast<T*>(job.y) + row * job.n;
    const int64_t seen = job.visible(row);
    const bool log = job.log;
    const Vec dot = hn::Set(kF32, sum_row(seen, [&](int64_t i, auto part) {
                              const Vec g = load(dy + i, part);
                              return log ? g : hn::Mul(g, load(y + i, part));
                            }));
    const Vec scale = hn::Set(kF32, static_cast<float>(job.scale));
    each_vector(seen, [&](int64_t i, auto part) {
      prefetch(y + job.n + i);
      prefetch(dy + job.n + i);
      const Vec g = load(dy + i, part), v = load(y + i, part);
      const Vec r =
          log ? hn::NegMulAdd(exp_nonpositive(v), dot, g) : hn::Mul(hn::Mul(scale, v), hn::Sub(g, dot));
      put<kStream>(r, dx + i, part);
    });
    fill(dx + seen, job.n - seen, 0.0f);
  }
}

// --- along another axis than the last: one vector of columns at a time, over all n rows

template <class T, class P>
void softmax_columns(const T* x, T* y, int64_t n, int64_t stride, bool log, P part) {
  Vec max = hn::Set(kF32, -kInf), sum = hn::Zero(kF32);
  for (int64_t r = 0; r < n; ++r) max = hn::Max(max, load(x + r * stride, part));
  for (int64_t r = 0; r < n; ++r)
    sum = hn::Add(sum, exp_nonpositive(hn::Sub(load(x + r * stride, part), max)));
  if (log) {
    const Vec log_sum = each_lane(sum, [](float v) { return std::log(v); });
    for (int64_t r = 0; r < n; ++r)
      store(hn::Sub(hn::Sub(load(x + r * stride, part), max), log_sum), y + r * stride, part);
  } else {
    const Vec inverse = hn::Div(hn::Set(kF32, 1.0f), sum);
    for (int64_t r = 0; r < n; ++r)
      store(hn::Mul(exp_nonpositive(hn::Sub(load(x + r * stride, part), max)), inverse), y + r * stride,
            part);
  }
}

template <class T, class P>
void gradient_columns(const T* y, const T* dy, T* dx, int64_t n, int64_t stride, const SoftmaxJob& job,
                      P part) {
  Vec dot = hn::Zero(kF32);
  const Vec scale = hn::Set(kF32, static_cast<float>(job.scale)), one = hn::Set(kF32, 1.0f);
  for (int64_t r = 0; r < n; ++r)
    dot = hn::MulAdd(load(dy + r * stride, part), job.log ? one : load(y + r * stride, part), dot);
  for (int64_t r = 0; r < n; ++r) {
    const Vec g = load(dy + r * stride, part), v = load(y + r * stride, part);
    const Vec d =
        job.log ? hn::NegMulAdd(exp_nonpositive(v), dot, g) : hn::Mul(hn::Mul(scale, v), hn::Sub(g, dot));
    store(d, dx + r * stride, part);
  }
}

// Processes column vectors [first, last), numbered over all outer indices. The columns of every outer index are split into
// vectors in the same way.
template <class T>
void column_range(const SoftmaxJob& job, int64_t first, int64_t last) {
  const int64_t per_outer = (job.inner + kLanes - 1) / kLanes;
  for (int64_t v = first; v < last; ++v) {
    const int64_t column = v % per_outer * kLanes, at = v / per_outer * job.n * job.inner + column;
    const T* x = static_cast<const T*>(job.x) + at;
    T* y = static_cast<T*>(job.y) + at;
    const auto run = [&](auto part) {
      if (job.dy)
        gradient_columns(x, static_cast<const T*>(job.dy) + at, y, job.n, job.inner, job, part);
      else
        softmax_columns(x, y, job.n, job.inner, job.log, part);
    };
    if (const int64_t rest = job.inner - column; rest < kLanes)
      run(Part{rest});
    else
      run(Full{});
  }
}

int64_t column_vectors(int64_t inner) { return (inner + kLanes - 1) / kLanes; }

template <class T>
void typed_rows(const SoftmaxJob& job, int64_t first, int64_t last) {
  if (job.inner != 1) return column_range<T>(job, first, last);
  if (job.dy)
    return job.stream ? gradient_range<T, true>(job, first, last)
                      : gradient_range<T, false>(job, first, last);
  job.stream ? softmax_range<T, true>(job, first, last) : softmax_range<T, false>(job, first, last);
}

// Processes rows, or vectors of columns if the axis is not the last.
void softmax_rows(const SoftmaxJob& job, int64_t first, int64_t last) {
  dispatch_rows(job.dtype, [&]<class T>(TypeTag<T>) { typed_rows<T>(job, first, last); });
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "backends/common/row_shape.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/ops/nn/softmax.h"

namespace genesis::cpu {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(column_vectors);

namespace {

// --- f64: plain loops over one row of any stride

void softmax_f64(const SoftmaxJob& job, const double* x, double* y, int64_t n) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, job.scale * x[i * job.inner]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(job.scale * x[i * job.inner] - max);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = job.scale * x[i * job.inner] - max;
    y[i * job.inner] = job.log ? shifted - log_sum : std::exp(shifted) / sum;
  }
}

void gradient_f64(const SoftmaxJob& job, const double* y, const double* dy, double* dx, int64_t n) {
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += dy[i * job.inner] * (job.log ? 1 : y[i * job.inner]);
  for (int64_t i = 0; i < n; ++i) {
    const double g = dy[i * job.inner], v = y[i * job.inner];
    dx[i * job.inner] = job.log ? g - std::exp(v) * dot : job.scale * v * (g - dot);
  }
}

void rows_f64(const SoftmaxJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t at = row / job.inner * job.n * job.inner + row % job.inner, seen = job.visible(row);
    const double* x = static_cast<const double*>(job.x) + at;
    double* y = static_cast<double*>(job.y) + at;
    if (job.dy)
      gradient_f64(job, x, static_cast<const double*>(job.dy) + at, y, seen);
    else
      softmax_f64(job, x, y, seen);
    for (int64_t i = seen; i < job.n; ++i) y[i * job.inner] = seen == 0 && !job.dy ? NAN : 0;
  }
}

void run_job(SoftmaxJob job, const KernelContext& c, int64_t axis) {
  const TensorView& x = c.input(0);
  const RowShape shape = row_shape(x.sizes(), axis);
  if (x.numel() == 0) return;
  job.dtype = x.dtype;
  job.x = x.data;
  job.y = c.output().data;
  if (c.num_inputs() > 1) job.dy = c.input(1).data;
  job.n = shape.n;
  job.inner = shape.inner;
  if (job.causal) job.queries = x.dim(-2);
  job.stream = streams(c.output(), job.n, job.x) && job.y != job.dy;
  const int64_t size = static_cast<int64_t>(size_of(x.dtype)) * (job.dy ? 3 : 2);
  if (x.dtype == DType::f64)
    return parallel_rows(shape.outer * shape.inner, shape.n * size,
                         [&](int64_t first, int64_t last) { rows_f64(job, first, last); });
  const int64_t vectors = job.inner == 1 ? 1 : HWY_DYNAMIC_DISPATCH(column_vectors)(job.inner);
  parallel_rows(shape.outer * vectors, shape.n * size * shape.inner / vectors,
                [&](int64_t first, int64_t last) {
                  HWY_DYNAMIC_DISPATCH(softmax_rows)
                  (job, first, last);
                });
}

void softmax(const KernelContext& c) { run_job({}, c, c.attributes<ops::Softmax>().axis); }

void log_softmax(const KernelContext& c) { run_job({.log = true}, c, c.attributes<ops::LogSoftmax>().axis); }

void causal_softmax(const KernelContext& c) {
  run_job({.scale = c.attributes<ops::CausalSoftmax>().scale, .causal = true}, c, -1);
}

void softmax_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::SoftmaxGrad>();
  run_job({.scale = op.scale, .causal = op.causal}, c, op.axis);
}

void log_softmax_grad(const KernelContext& c) {
  run_job({.log = true}, c, c.attributes<ops::LogSoftmaxGrad>().axis);
}

constexpr OpKernel kKernels[] = {{"softmax", {.name = "rows", .run = softmax}},
                                 {"log_softmax", {.name = "rows", .run = log_softmax}},
                                 {"causal_softmax", {.name = "rows", .run = causal_softmax}},
                                 {"softmax_grad", {.name = "rows", .run = softmax_grad}},
                                 {"log_softmax_grad", {.name = "rows", .run = log_softmax_grad}}};

}  // namespace

std::span<const OpKernel> softmax_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
