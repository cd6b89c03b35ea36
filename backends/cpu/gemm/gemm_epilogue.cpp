// The epilogue of a product: scale, bias, activation, addend, conversion and store of rows of a tile that are still in cache.
#include <algorithm>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/simd/row_simd-inl.h"
#include "backends/cpu/simd/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

template <Activation activation>
HWY_INLINE Vec activate(Vec x) {
  const simd::VFloat value(x);
  if constexpr (activation == Activation::kRelu) return simd::relu(value).v;
  if constexpr (activation == Activation::kGelu) return simd::gelu(value).v;
  if constexpr (activation == Activation::kGeluTanh) return simd::gelu_tanh(value).v;
  if constexpr (activation == Activation::kSilu) return simd::silu(value).v;
  return x;
}

template <Activation activation, class C>
HWY_INLINE void finish(Vec alpha, const float* sum, const float* bias, const C* addend, C* c) {
  Vec x = hn::Mul(load(sum), alpha);
  if (bias) x = hn::Add(x, load(bias));
  x = activate<activation>(x);
  if (addend) x = hn::Add(x, load(addend));
  store(x, c);
}

// Applies the epilogue to one row. The last columns go through a buffer, so that the value of an element never depends on where
// the row ends.
template <Activation activation, class C>
void finish_row(Vec alpha, int64_t n, const float* sum, const float* bias, const C* addend, C* c) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    finish<activation>(alpha, sum + j, bias ? bias + j : nullptr, addend ? addend + j : nullptr, c + j);
  if (j == n) return;
  HWY_ALIGN float last_sum[kLanes] = {}, last_bias[kLanes] = {};
  HWY_ALIGN C last_c[kLanes] = {};
  const int64_t rest = n - j;
  std::copy_n(sum + j, rest, last_sum);
  if (bias) std::copy_n(bias + j, rest, last_bias);
  if (addend) std::copy_n(addend + j, rest, last_c);
  finish<activation>(alpha, last_sum, bias ? last_bias : nullptr, addend ? last_c : nullptr, last_c);
  std::copy_n(last_c, rest, c + j);
}

template <Activation activation, class C>
void finish_rows(const EpilogueRows& of) {
  const auto* bias = static_cast<const float*>(of.bias);
  const auto* addend = static_cast<const C*>(of.addend);
  const Vec alpha = hn::Set(kF32, static_cast<float>(of.alpha));
  for (int64_t row = 0; row < of.rows; ++row)
    finish_row<activation>(alpha, of.n, static_cast<const float*>(of.sum) + row * of.sum_stride, bias,
                           addend ? addend + row * of.c_stride : nullptr,
                           static_cast<C*>(of.c) + row * of.c_stride);
}

template <class C>
void epilogue(const EpilogueRows& of) {
  switch (of.activation) {
    case Activation::kNone:
      return finish_rows<Activation::kNone, C>(of);
    case Activation::kRelu:
      return finish_rows<Activation::kRelu, C>(of);
    case Activation::kGelu:
      return finish_rows<Activation::kGelu, C>(of);
    case Activation::kGeluTanh:
      return finish_rows<Activation::kGeluTanh, C>(of);
    case Activation::kSilu:
      return finish_rows<Activation::kSilu, C>(of);
  }
}

EpilogueFunction epilogue_from_f32(DType c) {
  return dispatch_rows(c, []<class T>(TypeTag<T>) { return epilogue<T>; });
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {
namespace {

void epilogue_f64(const EpilogueRows& of) {
  const auto* bias = static_cast<const double*>(of.bias);
  for (int64_t row = 0; row < of.rows; ++row) {
    const double* sum = static_cast<const double*>(of.sum) + row * of.sum_stride;
    const auto* addend = static_cast<const double*>(of.addend);
    if (addend) addend += row * of.c_stride;
    double* c = static_cast<double*>(of.c) + row * of.c_stride;
    for (int64_t j = 0; j < of.n; ++j) {
      const double x = activate(of.alpha * sum[j] + (bias ? bias[j] : 0), of.activation);
      c[j] = addend ? addend[j] + x : x;
    }
  }
}

}  // namespace

HWY_EXPORT(epilogue_from_f32);

EpilogueFunction epilogue_function(DType accumulator, DType c) {
  if (accumulator == DType::f64) return c == DType::f64 ? epilogue_f64 : nullptr;
  return accumulator == DType::f32 ? HWY_DYNAMIC_DISPATCH(epilogue_from_f32)(c) : nullptr;
}

}  // namespace genesis::cpu
#endif
