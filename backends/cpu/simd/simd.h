// Vectors of f32 that behave like numbers: VFloat and VMask define the operators and functions that
// schema/ops/elementwise/formulas.h uses. Included once per Highway target (by a file that includes itself through
// foreach_target.h), so everything is in a namespace `simd` inside the target's namespace. No element depends on its neighbors.
#if defined(GENESIS_BACKENDS_CPU_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_SIMD_H_
#undef GENESIS_BACKENDS_CPU_SIMD_H_
#else
#define GENESIS_BACKENDS_CPU_SIMD_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE::simd {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;  // one byte per float of a vector
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
constexpr FloatTag kFloat;
constexpr IntTag kInt;

HWY_INLINE constexpr size_t lanes() { return hn::MaxLanes(FloatTag()); }

struct VFloat {
  hn::Vec<FloatTag> v;
  HWY_INLINE VFloat(hn::Vec<FloatTag> vector) : v(vector) {}
  HWY_INLINE explicit VFloat(double x) : v(hn::Set(kFloat, static_cast<float>(x))) {}
};
struct VMask {
  hn::Mask<FloatTag> m;
};
using VInt = hn::Vec<IntTag>;

HWY_INLINE VFloat operator+(VFloat a, VFloat b) { return hn::Add(a.v, b.v); }
HWY_INLINE VFloat operator-(VFloat a, VFloat b) { return hn::Sub(a.v, b.v); }
HWY_INLINE VFloat operator*(VFloat a, VFloat b) { return hn::Mul(a.v, b.v); }
HWY_INLINE VFloat operator/(VFloat a, VFloat b) { return hn::Div(a.v, b.v); }
HWY_INLINE VFloat operator-(VFloat a) { return hn::Neg(a.v); }
HWY_INLINE VMask operator==(VFloat a, VFloat b) { return {hn::Eq(a.v, b.v)}; }
// Not hn::Ne: Highway 1.0.3 compares ordered, so Ne(NaN, NaN) is false.
HWY_INLINE VMask operator!=(VFloat a, VFloat b) { return {hn::Not(hn::Eq(a.v, b.v))}; }
HWY_INLINE VMask operator<(VFloat a, VFloat b) { return {hn::Lt(a.v, b.v)}; }
HWY_INLINE VMask operator<=(VFloat a, VFloat b) { return {hn::Le(a.v, b.v)}; }
HWY_INLINE VMask operator>(VFloat a, VFloat b) { return {hn::Gt(a.v, b.v)}; }
HWY_INLINE VMask operator>=(VFloat a, VFloat b) { return {hn::Ge(a.v, b.v)}; }
HWY_INLINE VFloat select(VMask m, VFloat a, VFloat b) { return hn::IfThenElse(m.m, a.v, b.v); }
HWY_INLINE VFloat fma(VFloat a, VFloat b, VFloat c) { return hn::MulAdd(a.v, b.v, c.v); }
HWY_INLINE VFloat abs(VFloat a) { return hn::Abs(a.v); }
HWY_INLINE VFloat floor(VFloat a) { return hn::Floor(a.v); }
HWY_INLINE VFloat ceil(VFloat a) { return hn::Ceil(a.v); }
HWY_INLINE VFloat round(VFloat a) { return hn::Round(a.v); }
HWY_INLINE VFloat sqrt(VFloat a) { return hn::Sqrt(a.v); }
// Bounds keep NaN. On x86 Min and Max return their second operand if one is NaN; on Arm they return the one that is a number.
HWY_INLINE VFloat at_least(VFloat bound, VFloat x) {
  return HWY_ARCH_X86 ? hn::Max(bound.v, x.v) : hn::IfThenElse(hn::Gt(bound.v, x.v), bound.v, x.v);
}
HWY_INLINE VFloat at_most(VFloat bound, VFloat x) {
  return HWY_ARCH_X86 ? hn::Min(bound.v, x.v) : hn::IfThenElse(hn::Lt(bound.v, x.v), bound.v, x.v);
}
HWY_INLINE VFloat copysign(VFloat magnitude, VFloat sign) { return hn::CopySign(magnitude.v, sign.v); }

HWY_INLINE VFloat load(const float* p) { return hn::LoadU(kFloat, p); }
HWY_INLINE void store(VFloat x, float* p) { hn::StoreU(x.v, kFloat, p); }
HWY_INLINE VMask load(const uint8_t* p) {  // 0 or 1 per element
  return {hn::RebindMask(kFloat, hn::Ne(hn::PromoteTo(kInt, hn::LoadU(ByteTag(), p)), hn::Zero(kInt)))};
}
HWY_INLINE void store(VMask x, uint8_t* p) {
  const VInt ones = hn::IfThenElseZero(hn::RebindMask(kInt, x.m), hn::Set(kInt, 1));
  hn::StoreU(hn::DemoteTo(ByteTag(), ones), ByteTag(), p);
}

}  // namespace genesis::cpu::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
