// The end of a product: scale, bias, activation, old value, conversion and store of one row of a tile that
// still lies in cache. Used by gemm_packed.cpp and gemm_small.cpp through epilogue_function.
#include <algorithm>
#include <cmath>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
}

// erf by Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
V erf(D d, V x) {
  const V one = hn::Set(d, 1.0f), magnitude = hn::Abs(x);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), magnitude, one));
  V poly = hn::MulAdd(hn::Set(d, 1.061405429f), t, hn::Set(d, -1.453152027f));
  poly = hn::MulAdd(poly, t, hn::Set(d, 1.421413741f));
  poly = hn::MulAdd(poly, t, hn::Set(d, -0.284496736f));
  poly = hn::Mul(hn::MulAdd(poly, t, hn::Set(d, 0.254829592f)), t);
  const V tail = hn::Exp(d, hn::Neg(hn::Mul(magnitude, magnitude)));
  return hn::CopySign(hn::NegMulAdd(poly, tail, one), x);
}

V gelu(D d, V x) {
  const V half = hn::Mul(hn::Set(d, 0.5f), x);
  return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.70710678118654752f))), half);
}

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
V gelu_tanh(D d, V x) {
  const V cubic = hn::MulAdd(hn::Set(d, 0.044715f), hn::Mul(x, hn::Mul(x, x)), x);
  return hn::Mul(x, sigmoid(d, hn::Mul(hn::Set(d, 2 * 0.79788456080286536f), cubic)));
}

V activate(D d, V x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // keeps NaN
    case Activation::kGelu:
      return gelu(d, x);
    case Activation::kGeluTanh:
      return gelu_tanh(d, x);
    case Activation::kSilu:
      return hn::Mul(x, sigmoid(d, x));
  }
  return x;
}

// Loads and stores of C; bf16 rounds to nearest even, which Highway 1.0.3 does not.
V load_c(D d, const float* p) { return hn::LoadU(d, p); }
V load_c(D d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
}
V load_c(D d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), p));
}
void store_c(D d, V x, float* p) { hn::StoreU(x, d, p); }
void store_c([[maybe_unused]] D d, V x, hwy::float16_t* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, x), half, p);
}
void store_c(D d, V x, hwy::bfloat16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> half;
  const auto bits = hn::BitCast(du, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
  const auto nan = hn::BitCast(du, hn::VecFromMask(d, hn::IsNaN(x)));
  const auto result = hn::IfVecThenElse(nan, hn::Or(high, hn::Set(du, 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<decltype(du)>(), result)), half,
             reinterpret_cast<uint16_t*>(p));
}

template <class C>
void finish(D d, const EpilogueRow& row, const float* sum, const float* bias, C* c) {
  V x = hn::Mul(hn::LoadU(d, sum), hn::Set(d, static_cast<float>(row.alpha)));
  if (bias) x = hn::Add(x, hn::LoadU(d, bias));
  x = activate(d, x, row.activation);
  if (row.accumulate) x = hn::Add(x, load_c(d, c));
  store_c(d, x, c);
}

// The last columns go through a buffer, so that an element's value never depends on where the row ends.
template <class C>
void epilogue(const EpilogueRow& row) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* sum = static_cast<const float*>(row.sum);
  const auto* bias = static_cast<const float*>(row.bias);
  auto* c = static_cast<C*>(row.c);
  int64_t j = 0;
  for (; j + lanes <= row.n; j += lanes) finish(d, row, sum + j, bias ? bias + j : nullptr, c + j);
  if (j == row.n) return;
  HWY_ALIGN float last_sum[hn::MaxLanes(d)] = {}, last_bias[hn::MaxLanes(d)] = {};
  HWY_ALIGN C last_c[hn::MaxLanes(d)] = {};
  const int64_t rest = row.n - j;
  std::copy_n(sum + j, rest, last_sum);
  if (bias) std::copy_n(bias + j, rest, last_bias);
  if (row.accumulate) std::copy_n(c + j, rest, last_c);
  finish(d, row, last_sum, bias ? last_bias : nullptr, last_c);
  std::copy_n(last_c, rest, c + j);
}

EpilogueFunction epilogue_from_f32(DType c) {
  switch (c) {
    case DType::f32:
      return epilogue<float>;
    case DType::bf16:
      return epilogue<hwy::bfloat16_t>;
    case DType::f16:
      return epilogue<hwy::float16_t>;
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

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

void epilogue_f64(const EpilogueRow& row) {
  const auto* sum = static_cast<const double*>(row.sum);
  const auto* bias = static_cast<const double*>(row.bias);
  auto* c = static_cast<double*>(row.c);
  for (int64_t j = 0; j < row.n; ++j) {
    const double x = activate(row.alpha * sum[j] + (bias ? bias[j] : 0), row.activation);
    c[j] = row.accumulate ? c[j] + x : x;
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
