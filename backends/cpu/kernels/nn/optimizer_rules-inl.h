// The formulas of the optimizers, each written once for vectors of f32 and for double. Compiled once per instruction set, like
// row_simd-inl.h.
#if defined(GENESIS_BACKENDS_CPU_OPTIMIZER_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_OPTIMIZER_RULES_INL_H_
#undef GENESIS_BACKENDS_CPU_OPTIMIZER_RULES_INL_H_
#else
#define GENESIS_BACKENDS_CPU_OPTIMIZER_RULES_INL_H_
#endif

#include <cmath>

#include "backends/cpu/kernels/nn/optimizer_job.h"
#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

// A vector of f32 with the operators of a number; the formulas also take double.
struct Number {
  Vec v;
  HWY_INLINE Number(Vec vector) : v(vector) {}
  HWY_INLINE explicit Number(double x) : v(hn::Set(kF32, static_cast<float>(x))) {}
};
HWY_INLINE Number operator+(Number a, Number b) { return hn::Add(a.v, b.v); }
HWY_INLINE Number operator-(Number a, Number b) { return hn::Sub(a.v, b.v); }
HWY_INLINE Number operator*(Number a, Number b) { return hn::Mul(a.v, b.v); }
HWY_INLINE Number operator/(Number a, Number b) { return hn::Div(a.v, b.v); }
HWY_INLINE Number root(Number x) { return hn::Sqrt(x.v); }
HWY_INLINE Number sign(Number x) {  // 0 for 0, NaN for NaN
  const auto itself = hn::Or(hn::IsNaN(x.v), hn::Eq(x.v, hn::Zero(kF32)));
  return hn::IfThenElse(itself, x.v, hn::CopySign(hn::Set(kF32, 1.0f), x.v));
}
HWY_INLINE double root(double x) { return std::sqrt(x); }
HWY_INLINE double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

template <class N>
struct UpdatedElement {  // parameter, gradient and moments of one element
  N p, g, m, v;
};

template <class N>
struct SgdRule {
  N lr, scale, weight_decay, momentum, fresh;
  bool has_momentum, nesterov, first_step;
  explicit SgdRule(const UpdateJob& j)
      : lr(j.lr),
        scale(j.scale),
        weight_decay(j.weight_decay),
        momentum(j.beta1),
        fresh(1 - j.dampening),
        has_momentum(j.m != nullptr),
        nesterov(j.nesterov),
        first_step(j.first_step) {}
  HWY_INLINE void operator()(UpdatedElement<N>& s) const {
    N g = s.g * scale + s.p * weight_decay;
    if (has_momentum) {
      s.m = first_step ? g : s.m * momentum + g * fresh;
      g = nesterov ? g + s.m * momentum : s.m;
    }
    s.p = s.p - lr * g;
  }
};

template <class N>
struct AdamRule {
  N scale, weight_decay, shrink, fresh1, beta2, fresh2, step_size, inverse_root_correction, eps;
  explicit AdamRule(const UpdateJob& j)
      : scale(j.scale),
        weight_decay(j.weight_decay),
        shrink(j.shrink),
        fresh1(1 - j.beta1),
        beta2(j.beta2),
        fresh2(1 - j.beta2),
        step_size(j.step_size),
        inverse_root_correction(j.inverse_root_correction),
        eps(j.eps) {}
  HWY_INLINE void operator()(UpdatedElement<N>& s) const {
    const N g = s.g * scale + s.p * weight_decay;
    s.m = s.m + (g - s.m) * fresh1;
    s.v = s.v * beta2 + g * g * fresh2;
    s.p = s.p * shrink - step_size * (s.m / (root(s.v) * inverse_root_correction + eps));
  }
};

template <class N>
struct LionRule {
  N lr, scale, shrink, beta1, fresh1, beta2, fresh2;
  explicit LionRule(const UpdateJob& j)
      : lr(j.lr),
        scale(j.scale),
        shrink(j.shrink),
        beta1(j.beta1),
        fresh1(1 - j.beta1),
        beta2(j.beta2),
        fresh2(1 - j.beta2) {}
  HWY_INLINE void operator()(UpdatedElement<N>& s) const {
    const N g = s.g * scale;
    s.p = s.p * shrink - lr * sign(s.m * beta1 + g * fresh1);
    s.m = s.m * beta2 + g * fresh2;
  }
};

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
