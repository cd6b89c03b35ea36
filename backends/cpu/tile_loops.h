// Loops of one formula over one tile of f32. Included once per Highway target, after simd_math.h.
#if defined(GENESIS_BACKENDS_CPU_TILE_LOOPS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_TILE_LOOPS_H_
#undef GENESIS_BACKENDS_CPU_TILE_LOOPS_H_
#else
#define GENESIS_BACKENDS_CPU_TILE_LOOPS_H_
#endif

#include <utility>

#include "backends/cpu/simd_math.h"
#include "backends/cpu/tile_functions.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE::simd {

// An operand: a run of elements, or one element that stands for all.
template <class T>
struct Operand {
  const T* p;
  bool scalar;
  decltype(load(p)) value;

  HWY_INLINE Operand(const TileCall& c, size_t i)
      : p(static_cast<const T*>(c.in[i])), scalar(c.scalar[i]), value(splat(*p)) {}
  HWY_INLINE auto at(size_t i) const { return scalar ? value : load(p + i); }
  HWY_INLINE auto some(size_t i, size_t count) const { return scalar ? value : load_some(p + i, count); }

  static HWY_INLINE VFloat splat(float x) { return hn::Set(kFloat, x); }
  static HWY_INLINE VMask splat(uint8_t x) {
    return {hn::RebindMask(kFloat, hn::Ne(hn::Set(kInt, x), hn::Zero(kInt)))};
  }
};

template <class Out, class F, class... In>
HWY_INLINE void loop(const TileCall& c, F f, In... in) {
  Out* out = static_cast<Out*>(c.out);
  const size_t n = static_cast<size_t>(c.n), whole = n - n % lanes();
  for (size_t i = 0; i < whole; i += lanes()) store(f(in.at(i)...), out + i);
  if (whole < n) store_some(f(in.some(whole, n - whole)...), out + whole, n - whole);
}

template <class F, class... In>
HWY_INLINE void loop_any(const TileCall& c, F f, In... in) {
  using Result = decltype(f(in.at(0)...));
  if constexpr (std::is_same_v<Result, VMask>)
    loop<uint8_t>(c, f, in...);
  else
    loop<float>(c, f, in...);
}

template <class Result>
constexpr Lane kLaneOf = std::is_same_v<Result, VMask> ? Lane::kBool : Lane::kF32;

// Table entries from a formula given as a captureless lambda; P is its number of parameters.
template <class F>
void run_unary(const TileCall& c) {
  loop_any(c, F(), Operand<float>(c, 0));
}
template <class F>
void run_unary1(const TileCall& c) {
  const VFloat p(c.parameters[0]);
  loop_any(
      c, [p](VFloat x) HWY_ATTR { return F()(x, p); }, Operand<float>(c, 0));
}
template <class F>
void run_unary2(const TileCall& c) {
  const VFloat p(c.parameters[0]), q(c.parameters[1]);
  loop_any(
      c, [p, q](VFloat x) HWY_ATTR { return F()(x, p, q); }, Operand<float>(c, 0));
}
template <class F>
void run_binary(const TileCall& c) {
  loop_any(c, F(), Operand<float>(c, 0), Operand<float>(c, 1));
}

}  // namespace genesis::cpu::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
