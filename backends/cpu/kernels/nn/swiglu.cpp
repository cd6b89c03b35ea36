// swiglu and swiglu_grad on the CPU: one pass over memory, one exponential per element. Results may overwrite operands: every
// element is read before it is written. Gate and up may lie side by side in one packed operand: then work is done row by row,
// otherwise on one run of all elements.
#include "backends/cpu/kernels/nn/swiglu.h"

#include <cmath>

#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"
#include "backends/kernel.h"
#include "schema/ops/nn/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nn/swiglu.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

// Returns 1 / (1 + e^-x), computed from e^-|x| so that nothing overflows.
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

// With s = sigmoid(x), the derivative of x s is s (1 + x (1 - s)). If `y` is not null, the output is written again.
template <bool kStream, class T>
void backward(const T* gate, const T* up, const T* dy, T* d_gate, T* d_up, T* y, int64_t n) {
  const Vec one = hn::Set(kF32, 1.0f);
  each_vector(n, [&](int64_t i, auto part) {
    const Vec x = load(gate + i, part), u = load(up + i, part), g = load(dy + i, part), s = sigmoid(x);
    const Vec slope = hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
    put<kStream>(hn::Mul(hn::Mul(g, u), slope), d_gate + i, part);
    put<kStream>(hn::Mul(g, hn::Mul(x, s)), d_up + i, part);
    if (y) put<kStream>(hn::Mul(hn::Mul(x, s), u), y + i, part);
  });
}

template <class T>
void forward_stretch(const SwigluCall& call, int64_t x_at, int64_t y_at, int64_t n) {
  const auto *gate = static_cast<const T*>(call.gate), *up = static_cast<const T*>(call.up);
  (call.stream ? forward<true, T> : forward<false, T>)(gate + x_at, up + x_at, static_cast<T*>(call.y) + y_at,
                                                       n);
}

template <class T>
void backward_stretch(const SwigluCall& call, int64_t x_at, int64_t y_at, int64_t n) {
  const auto *gate = static_cast<const T*>(call.gate), *up = static_cast<const T*>(call.up),
             *dy = static_cast<const T*>(call.dy);
  auto *d_gate = static_cast<T*>(call.d_gate), *d_up = static_cast<T*>(call.d_up);
  (call.stream ? backward<true, T>
               : backward<false, T>)(gate + x_at, up + x_at, dy + y_at, d_gate + x_at, d_up + x_at,
                                     call.y ? static_cast<T*>(call.y) + y_at : nullptr, n);
}

template <class T>
void forward_untyped(const void* gate, const void* up, void* y, int64_t n) {
  forward<false>(static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(y), n);
}

}  // namespace

SwigluFunction function_of(DType dtype) {
  return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return forward_untyped<T>; });
}

using Stretch = void (*)(const SwigluCall&, int64_t, int64_t, int64_t);

Stretch forward_of(DType dtype) {
  return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return forward_stretch<T>; });
}

Stretch backward_of(DType dtype) {
  return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return backward_stretch<T>; });
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

using SwigluStretch = void (*)(const SwigluCall&, int64_t x_at, int64_t y_at, int64_t n);
HWY_EXPORT(function_of);
HWY_EXPORT(forward_of);
HWY_EXPORT(backward_of);

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void function_f64(const void* gate, const void* up, void* y, int64_t n) {
  const auto *g = static_cast<const double*>(gate), *u = static_cast<const double*>(up);
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(y)[i] = g[i] * sigmoid(g[i]) * u[i];
}

void forward_f64(const SwigluCall& call, int64_t x_at, int64_t y_at, int64_t n) {
  function_f64(static_cast<const double*>(call.gate) + x_at, static_cast<const double*>(call.up) + x_at,
               static_cast<double*>(call.y) + y_at, n);
}

void backward_f64(const SwigluCall& call, int64_t x_at, int64_t y_at, int64_t n) {
  const auto *gate = static_cast<const double*>(call.gate) + x_at,
             *up = static_cast<const double*>(call.up) + x_at,
             *dy = static_cast<const double*>(call.dy) + y_at;
  auto *d_gate = static_cast<double*>(call.d_gate) + x_at, *d_up = static_cast<double*>(call.d_up) + x_at;
  for (int64_t i = 0; i < n; ++i) {
    const double x = gate[i], u = up[i], g = dy[i], s = sigmoid(x);
    d_gate[i] = g * u * s * (1 + x * (1 - s));
    d_up[i] = g * x * s;
    if (call.y) static_cast<double*>(call.y)[y_at + i] = x * s * u;
  }
}

// The memory layout of the operands and results.
struct Layout {
  bool packed;
  int64_t rows, n;  // number of contiguous runs and their length; one run if nothing is packed
};

Layout layout_of(const TensorView& y, bool packed) {
  const int64_t n = packed ? y.dim(-1) : y.numel();
  return {packed, packed && n > 0 ? y.numel() / n : 1, n};
}

template <class Void>
Void* second_half(Void* data, DType dtype, int64_t n) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return static_cast<Byte*>(data) + n * static_cast<int64_t>(size_of(dtype));
}

bool overlaps_operand(const KernelContext& c, const TensorView& result) {
  return std::ranges::any_of(c.inputs, [&](const TensorView& input) { return input.data == result.data; });
}

bool all_stream(const KernelContext& c, const Layout& layout) {
  return std::ranges::all_of(c.outputs, [&](const TensorView& result) {
    return streams(result, layout.packed ? layout.n : 32, nullptr) && !overlaps_operand(c, result);
  });
}

// Calls `stretch` in parallel. Ranges begin at multiples of 64 elements, so that no vector straddles two; for packed operands
// they begin at a row.
void run_stretches(const KernelContext& c, const SwigluCall& call, const Layout& layout,
                   SwigluStretch stretch) {
  const int64_t tensors = 3 + 2 * static_cast<int64_t>(c.outputs.size()),
                element = static_cast<int64_t>(size_of(c.input(0).dtype));
  if (layout.packed)
    return parallel_rows(layout.rows, tensors * layout.n * element, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        stretch(call, 2 * row * layout.n, row * layout.n, layout.n);
    });
  parallel_rows((layout.n + 63) / 64, tensors * 64 * element, [&](int64_t first, int64_t last) {
    stretch(call, first * 64, first * 64, std::min(last * 64, layout.n) - first * 64);
  });
}

void run_forward(const KernelContext& c) {
  const DType dtype = c.output().dtype;
  const Layout layout = layout_of(c.output(), c.num_inputs() == 1);
  SwigluCall call;
  call.gate = c.input(0).data;
  call.up = layout.packed ? second_half(call.gate, dtype, layout.n) : c.input(1).data;
  call.y = c.output().data;
  call.stream = all_stream(c, layout);
  run_stretches(c, call, layout, dtype == DType::f64 ? forward_f64 : HWY_DYNAMIC_DISPATCH(forward_of)(dtype));
}

void run_backward(const KernelContext& c) {
  const TensorView& dy = c.inputs.back();
  const Layout layout = layout_of(dy, c.num_inputs() == 2);
  SwigluCall call;
  call.gate = c.input(0).data;
  call.up = layout.packed ? second_half(call.gate, dy.dtype, layout.n) : c.input(1).data;
  call.dy = dy.data;
  call.d_gate = c.output(0).data;
  call.d_up = layout.packed ? second_half(call.d_gate, dy.dtype, layout.n) : c.output(1).data;
  call.y = c.attributes<ops::SwigluGrad>().with_output ? c.outputs.back().data : nullptr;
  call.stream = all_stream(c, layout);
  run_stretches(c, call, layout,
                dy.dtype == DType::f64 ? backward_f64 : HWY_DYNAMIC_DISPATCH(backward_of)(dy.dtype));
}

constexpr OpKernel kKernels[] = {{"swiglu", {.name = "simd", .run = run_forward}},
                                 {"swiglu_grad", {.name = "simd", .run = run_backward}}};

}  // namespace

SwigluFunction swiglu_function(DType dtype) {
  return dtype == DType::f64 ? function_f64 : HWY_DYNAMIC_DISPATCH(function_of)(dtype);
}

std::span<const OpKernel> swiglu_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
