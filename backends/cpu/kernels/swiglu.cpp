// swiglu and swiglu_grad on the CPU: one pass over memory, one exponential per element. Results may be
// written over operands: every element is read before it is written.
#include "backends/cpu/kernels/swiglu.h"

#include <cmath>

#include "backends/cpu/highway_targets.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/row_jobs.h"
#include "backends/kernel.h"
#include "schema/ops/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/swiglu.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

// 1 / (1 + e^-x), by e^-|x| so that nothing overflows.
HWY_INLINE Vec sigmoid(Vec x) {
  const Vec one = hn::Set(kF32, 1.0f), t = exp_nonpositive(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(kF32)), t, one), hn::Add(one, t));
}

template <bool kStream, class T>
void forward(const T* gate, const T* up, T* y, int64_t n) {
  each_vector(n, [&](int64_t i, auto part) {
    const Vec x = load(gate + i, part);
    put<kStream>(hn::Mul(hn::Mul(x, sigmoid(x)), load(up + i, part)), y + i, part);
  });
}

// With s = sigmoid(x): d/dx of x s is s (1 + x (1 - s)).
template <bool kStream, class T>
void backward(const T* gate, const T* up, const T* dy, T* d_gate, T* d_up, int64_t n) {
  const Vec one = hn::Set(kF32, 1.0f);
  each_vector(n, [&](int64_t i, auto part) {
    const Vec x = load(gate + i, part), u = load(up + i, part), g = load(dy + i, part), s = sigmoid(x);
    const Vec slope = hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
    put<kStream>(hn::Mul(hn::Mul(g, u), slope), d_gate + i, part);
    put<kStream>(hn::Mul(g, hn::Mul(x, s)), d_up + i, part);
  });
}

template <class T>
void forward_range(const KernelContext& c, int64_t first, int64_t last) {
  const auto *gate = c.input(0).as<T>(), *up = c.input(1).as<T>();
  auto* y = c.output().as<T>();
  const bool stream = streams(c.output(), 32, gate) && y != up;
  (stream ? forward<true, T> : forward<false, T>)(gate + first, up + first, y + first, last - first);
}

template <class T>
void backward_range(const KernelContext& c, int64_t first, int64_t last) {
  const auto *gate = c.input(0).as<T>(), *up = c.input(1).as<T>(), *dy = c.input(2).as<T>();
  auto *d_gate = c.output(0).as<T>(), *d_up = c.output(1).as<T>();
  const auto fresh = [&](int output) {
    return streams(c.output(output), 32, gate) && c.output(output).data != up && c.output(output).data != dy;
  };
  (fresh(0) && fresh(1) ? backward<true, T> : backward<false, T>)(gate + first, up + first, dy + first,
                                                                  d_gate + first, d_up + first, last - first);
}

template <class T>
void forward_untyped(const void* gate, const void* up, void* y, int64_t n) {
  forward<false>(static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(y), n);
}

}  // namespace

SwigluFunction function_of(DType dtype) {
  return dtype == DType::f32    ? forward_untyped<float>
         : dtype == DType::bf16 ? forward_untyped<bf16>
                                : forward_untyped<f16>;
}

using Range = void (*)(const KernelContext&, int64_t, int64_t);

Range forward_of(DType dtype) {
  return dtype == DType::f32    ? forward_range<float>
         : dtype == DType::bf16 ? forward_range<bf16>
                                : forward_range<f16>;
}

Range backward_of(DType dtype) {
  return dtype == DType::f32    ? backward_range<float>
         : dtype == DType::bf16 ? backward_range<bf16>
                                : backward_range<f16>;
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

using SwigluRange = void (*)(const KernelContext&, int64_t, int64_t);
HWY_EXPORT(function_of);
HWY_EXPORT(forward_of);
HWY_EXPORT(backward_of);

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void function_f64(const void* gate, const void* up, void* y, int64_t n) {
  const auto *g = static_cast<const double*>(gate), *u = static_cast<const double*>(up);
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(y)[i] = g[i] * sigmoid(g[i]) * u[i];
}

void forward_f64(const KernelContext& c, int64_t first, int64_t last) {
  function_f64(c.input(0).as<double>() + first, c.input(1).as<double>() + first,
               c.output().as<double>() + first, last - first);
}

void backward_f64(const KernelContext& c, int64_t first, int64_t last) {
  const auto *gate = c.input(0).as<double>(), *up = c.input(1).as<double>(), *dy = c.input(2).as<double>();
  for (int64_t i = first; i < last; ++i) {
    const double x = gate[i], u = up[i], g = dy[i], s = sigmoid(x);
    c.output(0).as<double>()[i] = g * u * s * (1 + x * (1 - s));
    c.output(1).as<double>()[i] = g * x * s;
  }
}

// Ranges begin at multiples of 64 elements, so that no vector straddles two.
void run_ranges(const KernelContext& c, SwigluRange range) {
  const int64_t n = c.output().numel(), tensors = c.num_inputs() + static_cast<int64_t>(c.outputs.size());
  parallel_rows((n + 63) / 64, tensors * 64 * static_cast<int64_t>(size_of(c.output().dtype)),
                [&](int64_t first, int64_t last) { range(c, first * 64, std::min(last * 64, n)); });
}

void run_forward(const KernelContext& c) {
  const DType dtype = c.output().dtype;
  run_ranges(c, dtype == DType::f64 ? forward_f64 : HWY_DYNAMIC_DISPATCH(forward_of)(dtype));
}

void run_backward(const KernelContext& c) {
  const DType dtype = c.output().dtype;
  run_ranges(c, dtype == DType::f64 ? backward_f64 : HWY_DYNAMIC_DISPATCH(backward_of)(dtype));
}

constexpr KernelImpl kSwiglu[] = {{.name = "simd", .run = run_forward}};
constexpr KernelImpl kSwigluGrad[] = {{.name = "simd", .run = run_backward}};
constexpr OpKernels kKernels[] = {{"swiglu", kSwiglu}, {"swiglu_grad", kSwigluGrad}};

}  // namespace

SwigluFunction swiglu_function(DType dtype) {
  return dtype == DType::f64 ? function_f64 : HWY_DYNAMIC_DISPATCH(function_of)(dtype);
}

std::span<const OpKernels> swiglu_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
