// The row loops of cross-entropy in f32, bf16 and f16. The forward pass reads logits from memory once; the gradient reads and
// writes once, using the row's saved log-sum-exp.
#include "backends/cpu/loss/cross_entropy.h"
#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loss/cross_entropy_rows.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

#include "backends/cpu/simd/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

template <class P>
HWY_INLINE Vec class_weights(const CrossEntropyJob& job, int64_t i, P part) {
  return job.weight ? load(static_cast<const float*>(job.weight) + i, part) : hn::Set(kF32, 1.0f);
}

// Returns the weighted, smoothed probabilities of a row's classes; zero in lanes outside the row.
template <class Q, class P>
HWY_INLINE Vec shares(const CrossEntropyJob& job, const Q* q, int64_t i, P part) {
  const Vec keep = hn::Set(kF32, static_cast<float>(1 - job.smoothing));
  const Vec smooth = hn::Set(kF32, static_cast<float>(job.smooth_share()));
  return only(hn::Mul(class_weights(job, i, part), hn::MulAdd(load(q + i, part), keep, smooth)), part);
}

// Returns the sum of share * (lse - x), computed as share * (max - x) + share * log(sum), so that large logits do not cancel.
template <class T, class Q>
double probability_loss(const CrossEntropyJob& job, const T* x, const Q* q, double max, double log_sum) {
  const Vec shift = hn::Set(kF32, static_cast<float>(max));
  const double near = sum_row(job.classes, [&](int64_t i, auto part) {
    return only(hn::Mul(shares(job, q, i, part), hn::Sub(shift, load(x + i, part))), part);
  });
  return near + log_sum * sum_row(job.classes, [&](int64_t i, auto part) { return shares(job, q, i, part); });
}

// Returns the loss of a row with a class target. `at` is the target's position among the logits, or -1.
template <class T>
double class_loss(const CrossEntropyJob& job, const T* x, int64_t at, double max, double log_sum) {
  double loss = 0;
  if (at >= 0)
    loss = (1 - job.smoothing) * job.weight_of(at) * (log_sum - (static_cast<double>(x[at]) - max));
  if (job.smoothing == 0) return loss;
  const Vec shift = hn::Set(kF32, static_cast<float>(max));
  const double spread = sum_row(job.classes, [&](int64_t i, auto part) {
    return only(hn::Mul(class_weights(job, i, part), hn::Sub(shift, load(x + i, part))), part);
  });
  return loss + job.smooth_share() * (spread + job.weight_sum * log_sum);
}

template <class T, class Q>
void loss_range(const CrossEntropyJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const T* x = static_cast<const T*>(job.logits) + row * job.classes;
    const int64_t at = job.has_probabilities() ? 0 : job.class_of(row);
    job.row_loss[row] = 0;
    if (job.lse) static_cast<float*>(job.lse)[row] = 0;
    if (at < 0) continue;
    const MaxSum sums = row_max_sum(x, job.classes);
    const double log_sum = std::log(double{sums.sum});
    if (job.lse) static_cast<float*>(job.lse)[row] = static_cast<float>(sums.max + log_sum);
    job.row_loss[row] = job.has_probabilities()
                            ? probability_loss(job, x, static_cast<const Q*>(job.target) + row * job.classes,
                                               sums.max, log_sum)
                            : class_loss(job, x, job.own().place_of(at), sums.max, log_sum);
  }
}

// dx = g ((sum of shares) softmax(x) - shares)
template <bool kStream, class T, class Q>
void probability_gradient(const CrossEntropyJob& job, const T* x, const Q* q, T* dx, float g, Vec lse) {
  const float total = sum_row(job.classes, [&](int64_t i, auto part) { return shares(job, q, i, part); });
  const Vec scale = hn::Set(kF32, g), a = hn::Set(kF32, total);
  each_vector(job.classes, [&](int64_t i, auto part) {
    const Vec p = exp_nonpositive(hn::Sub(load(x + i, part), lse));
    put<kStream>(hn::Mul(scale, hn::MulSub(a, p, shares(job, q, i, part))), dx + i, part);
  });
}

HWY_INLINE Vec with_lane(Vec v, int64_t lane, float value) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, kF32, lanes);
  lanes[lane] = value;
  return hn::Load(kF32, lanes);
}

// dx = a softmax(x) - b weight, minus d at the target, where d = g (1 - smoothing) weight[target], b = g smoothing / classes and
// a = d + b (sum of weights). `at` is the target among all classes.
template <bool kStream, class T>
void class_gradient(const CrossEntropyJob& job, const T* x, int64_t at, T* dx, double g, Vec lse) {
  const double d = g * (1 - job.smoothing) * job.weight_of(at), b = g * job.smooth_share();
  const double a = d + b * job.weight_sum_of_all();
  const int64_t place = job.own().place_of(at), at_vector = place < 0 ? -1 : place / kLanes * kLanes;
  const double at_target =
      place < 0 ? 0
                : a * std::exp(double{static_cast<float>(x[place])} - double{hn::GetLane(lse)}) -
                      b * job.weight_of(place) - d;
  const Vec va = hn::Set(kF32, static_cast<float>(a)), vb = hn::Set(kF32, static_cast<float>(b));
  // The target's element is written together with the others: writing it after non-temporal stores would fetch its line again.
  each_vector(job.classes, [&](int64_t i, auto part) {
    Vec d = hn::Mul(va, exp_nonpositive(hn::Sub(load(x + i, part), lse)));
    if (b != 0) d = hn::NegMulAdd(vb, class_weights(job, i, part), d);
    if (i == at_vector) d = with_lane(d, place - i, static_cast<float>(at_target));
    put<kStream>(d, dx + i, part);
  });
}

template <bool kStream, class T, class Q>
void gradient_range(const CrossEntropyJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const T* x = static_cast<const T*>(job.logits) + row * job.classes;
    T* dx = static_cast<T*>(job.dlogits) + row * job.classes;
    const int64_t at = job.has_probabilities() ? 0 : job.class_of(row);
    const Vec lse = hn::Set(kF32, static_cast<const float*>(job.lse)[row]);
    if (at < 0)
      each_vector(job.classes, [&](int64_t i, auto part) { put<kStream>(hn::Zero(kF32), dx + i, part); });
    else if (job.has_probabilities())
      probability_gradient<kStream>(job, x, static_cast<const Q*>(job.target) + row * job.classes, dx,
                                    static_cast<float>(job.dy_of(row)), lse);
    else
      class_gradient<kStream>(job, x, at, dx, job.dy_of(row), lse);
  }
}

// Target probabilities have the dtype of the logits, or f32.
template <class T, class Q>
void typed_rows(const CrossEntropyJob& job, int64_t first, int64_t last) {
  if (!job.dlogits) return loss_range<T, Q>(job, first, last);
  job.stream ? gradient_range<true, T, Q>(job, first, last) : gradient_range<false, T, Q>(job, first, last);
}

void rows(const CrossEntropyJob& job, int64_t first, int64_t last) {
  dispatch_rows(job.dtype, [&]<class T>(TypeTag<T>) {
    const bool same = job.target_dtype == job.dtype;
    (same ? typed_rows<T, T> : typed_rows<T, float>)(job, first, last);
  });
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(rows);

void cross_entropy_rows(const CrossEntropyJob& job, int64_t first, int64_t last) {
  if (job.dtype == DType::f64) return cross_entropy_rows_f64(job, first, last);
  HWY_DYNAMIC_DISPATCH(rows)(job, first, last);
}

void cross_entropy_gradient_rows(const CrossEntropyJob& job, int64_t first, int64_t last) {
  if (job.dtype == DType::f64) return cross_entropy_gradient_rows_f64(job, first, last);
  HWY_DYNAMIC_DISPATCH(rows)(job, first, last);
}

}  // namespace genesis::cpu
#endif
