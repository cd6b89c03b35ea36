// The templates that make micro-ops from formulas. Included once per Highway target.
#if defined(GENESIS_BACKENDS_CPU_TILE_MICRO_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_TILE_MICRO_OPS_INL_H_
#undef GENESIS_BACKENDS_CPU_TILE_MICRO_OPS_INL_H_
#else
#define GENESIS_BACKENDS_CPU_TILE_MICRO_OPS_INL_H_
#endif

#include <utility>

#include "backends/cpu/fused/tile_micro_ops.h"
#include "backends/cpu/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE::simd {

using Vector = hn::Vec<FloatTag>;
template <size_t>
using Nth = Vector;

// Vector form of a value between micro-ops: numbers as they are, conditions as lanes with all bits set or none.
HWY_INLINE Vector bits(VFloat x) { return x.v; }
HWY_INLINE Vector bits(VMask x) { return hn::VecFromMask(kFloat, x.m); }

// Vectors per block: as many as the calling convention passes in registers.
inline constexpr size_t kBlockVectors = 8;
HWY_INLINE constexpr size_t block_elements() { return kBlockVectors * lanes(); }

// An operand in memory: an array, or one element that stands for all if `scalar`.
template <class T>
struct MicroOpOperand {
  const T* p;
  bool scalar;
  HWY_INLINE MicroOpOperand(const MicroOp* s, size_t number, size_t i)
      : p(reinterpret_cast<const T*>(s->memory[number]) + (s->scalar[number] ? 0 : i)),
        scalar(s->scalar[number]) {}
  HWY_INLINE auto splat() const {
    alignas(64) T copies[lanes()];
    for (T& copy : copies) copy = *p;
    return load(copies);
  }
  HWY_INLINE auto at(size_t k) const { return load(p + k * lanes()); }
  HWY_INLINE auto any(size_t k) const { return scalar ? splat() : at(k); }
};

template <class F, int kParameters>
HWY_INLINE auto apply(const MicroOp* s, VFloat x) {
  const VFloat p(s->parameters[0]), q(s->parameters[1]);
  if constexpr (kParameters == 0)
    return F()(x);
  else if constexpr (kParameters == 1)
    return F()(x, p);
  else
    return F()(x, p, q);
}

// The micro-ops; K... are the indices of a block's vectors. `vectors` is the number of vectors that are needed, fewer at the end
// of an array: slow formulas skip the rest. Slow formulas are compiled as a loop over the block, to keep the code small; quick
// ones are unrolled for all eight vectors, which is a fifth faster.
template <class Numbers>
struct MicroOpsOf;
template <size_t... K>
struct MicroOpsOf<std::index_sequence<K...>> {
  using Run = void (*)(const MicroOp*, size_t i, size_t vectors, Nth<K>...);

  static HWY_INLINE void next(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    reinterpret_cast<Run>(s[1].run)(s + 1, i, vectors, a...);
  }

  template <class F, int kParameters>
  static void unary(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    next(s, i, vectors, bits(apply<F, kParameters>(s, VFloat(a)))...);
  }
  template <class F, int kParameters>
  static void slow_unary(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    Vector block[] = {a...};
    for (size_t k = 0; k < vectors; ++k) block[k] = bits(apply<F, kParameters>(s, VFloat(block[k])));
    next(s, i, vectors, block[K]...);
  }

  // left() computes f(registers, memory), right() computes f(memory, registers).
  template <class F>
  static void left(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    const MicroOpOperand<float> b(s, 0, i);
    if (b.scalar) return next(s, i, vectors, bits(F()(VFloat(a), b.splat()))...);
    next(s, i, vectors, bits(F()(VFloat(a), b.at(K)))...);
  }
  template <class F>
  static void right(const MicroOp* s, size_t i, size_t vectors, Nth<K>... b) {
    const MicroOpOperand<float> a(s, 0, i);
    if (a.scalar) return next(s, i, vectors, bits(F()(a.splat(), VFloat(b)))...);
    next(s, i, vectors, bits(F()(a.at(K), VFloat(b)))...);
  }
  template <class F, bool kLeft>
  static void slow_binary(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    const MicroOpOperand<float> b(s, 0, i);
    Vector block[] = {a...};
    for (size_t k = 0; k < vectors; ++k) {
      const VFloat x(block[k]), y = b.any(k);
      block[k] = bits(kLeft ? F()(x, y) : F()(y, x));
    }
    next(s, i, vectors, block[K]...);
  }

  // Operand `kHeld` is in registers, the other two are in memory.
  template <int kHeld>
  static void where(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    using First = std::conditional_t<kHeld == 0, float, uint8_t>;
    const MicroOpOperand<First> first(s, 0, i);
    const MicroOpOperand<float> second(s, 1, i);
    Vector block[] = {a...};
    for (size_t k = 0; k < vectors; ++k) {
      if constexpr (kHeld == 0)
        block[k] = bits(select(VMask{hn::MaskFromVec(block[k])}, first.any(k), second.any(k)));
      else if constexpr (kHeld == 1)
        block[k] = bits(select(first.any(k), VFloat(block[k]), second.any(k)));
      else
        block[k] = bits(select(first.any(k), second.any(k), VFloat(block[k])));
    }
    next(s, i, vectors, block[K]...);
  }

  template <class T>
  static void read(const MicroOp* s, size_t i, size_t vectors, Nth<K>...) {
    const MicroOpOperand<T> x(s, 0, i);
    if (x.scalar) return next(s, i, vectors, (static_cast<void>(K), bits(x.splat()))...);
    next(s, i, vectors, bits(x.at(K))...);
  }
  // W::write(vector, T* to) stores one vector.
  template <class T, class W>
  static void write(const MicroOp* s, size_t i, size_t vectors, Nth<K>... a) {
    T* to = reinterpret_cast<T*>(s->memory[0]) + i;
    (W::write(a, to + K * lanes()), ...);
    next(s, i, vectors, a...);
  }

  static void finish(const MicroOp*, size_t, size_t, Nth<K>...) {}
  static HWY_INLINE void start(const MicroOp* s, size_t i, size_t vectors) {
    reinterpret_cast<Run>(s->run)(s, i, vectors, (static_cast<void>(K), hn::Zero(kFloat))...);
  }
};
using MicroOps = MicroOpsOf<std::make_index_sequence<kBlockVectors>>;

}  // namespace genesis::cpu::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
