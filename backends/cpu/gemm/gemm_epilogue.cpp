// The end of a product: scale, bias, activation, old value, conversion and store of one row of a tile that
// still lies in cache. Used by gemm_packed.cpp and gemm_small.cpp through epilogue_function.
#include <algorithm>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/simd/highway_targets.h"

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

Vec activate(Vec x, Activation activation) {
  const simd::VFloat value(x);
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return simd::relu(value).v;
    case Activation::kGelu:
      return simd::gelu(value).v;
    case Activation::kGeluTanh:
      return simd::gelu_tanh(value).v;
    case Activation::kSilu:
      return simd::silu(value).v;
  }
  return x;
}

template <class C>
HWY_INLINE void finish(const EpilogueRow& row, const float* sum, const float* bias, const C* addend, C* c) {
  Vec x = hn::Mul(load(sum), hn::Set(kF32, static_cast<float>(row.alpha)));
  if (bias) x = hn::Add(x, load(bias));
  x = activate(x, row.activation);
  if (addend) x = hn::Add(x, load(addend));
  store(x, c);
}

// The last columns go through a buffer, so that an element's value never depends on where the row ends.
template <class C>
void epilogue(const EpilogueRow& row) {
  const auto* sum = static_cast<const float*>(row.sum);
  const auto* bias = static_cast<const float*>(row.bias);
  const auto* addend = static_cast<const C*>(row.addend);
  auto* c = static_cast<C*>(row.c);
  int64_t j = 0;
  for (; j + kLanes <= row.n; j += kLanes)
    finish(row, sum + j, bias ? bias + j : nullptr, addend ? addend + j : nullptr, c + j);
  if (j == row.n) return;
  HWY_ALIGN float last_sum[kLanes] = {}, last_bias[kLanes] = {};
  HWY_ALIGN C last_c[kLanes] = {};
  const int64_t rest = row.n - j;
  std::copy_n(sum + j, rest, last_sum);
  if (bias) std::copy_n(bias + j, rest, last_bias);
  if (addend) std::copy_n(addend + j, rest, last_c);
  finish(row, last_sum, bias ? last_bias : nullptr, addend ? last_c : nullptr, last_c);
  std::copy_n(last_c, rest, c + j);
}

EpilogueFunction epilogue_from_f32(DType c) {
  switch (c) {
    case DType::f32:
      return epilogue<float>;
    case DType::bf16:
      return epilogue<bf16>;
    case DType::f16:
      return epilogue<f16>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {
namespace {

void epilogue_f64(const EpilogueRow& row) {
  const auto* sum = static_cast<const double*>(row.sum);
  const auto* bias = static_cast<const double*>(row.bias);
  const auto* addend = static_cast<const double*>(row.addend);
  auto* c = static_cast<double*>(row.c);
  for (int64_t j = 0; j < row.n; ++j) {
    const double x = activate(row.alpha * sum[j] + (bias ? bias[j] : 0), row.activation);
    c[j] = addend ? addend[j] + x : x;
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
