// f32 tile functions of two and three operands, conversions of the 16-bit types, and copies around the cache;
// vectorised, chosen for the machine when looked up. Used by tile_functions.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile_f32_binary.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/highway_targets.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/tile_loops.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

using namespace simd;

struct BinaryRow {
  std::string_view name;
  TileFunction run;
  Lane result;
};

void run_where(const TileCall& c) {
  loop_any(
      c, [](VMask m, VFloat a, VFloat b) HWY_ATTR { return select(m, a, b); }, Operand<uint8_t>(c, 0),
      Operand<float>(c, 1), Operand<float>(c, 2));
}

#define GENESIS_ROW(name, result)                                                               \
  BinaryRow {                                                                                   \
#name, &run_binary < decltype([](auto... x) HWY_ATTR { return name(x...); })>, Lane::result \
  }

Formula find_binary(std::string_view name) {
  static constexpr BinaryRow kRows[] = {
      GENESIS_ROW(add, kF32),       GENESIS_ROW(sub, kF32),           GENESIS_ROW(mul, kF32),
      GENESIS_ROW(div, kF32),       GENESIS_ROW(maximum, kF32),       GENESIS_ROW(minimum, kF32),
      GENESIS_ROW(floordiv, kF32),  GENESIS_ROW(pow, kF32),           GENESIS_ROW(atan2, kF32),
      GENESIS_ROW(remainder, kF32), GENESIS_ROW(eq, kBool),           GENESIS_ROW(ne, kBool),
      GENESIS_ROW(lt, kBool),       GENESIS_ROW(le, kBool),           GENESIS_ROW(gt, kBool),
      GENESIS_ROW(ge, kBool),       {"where", run_where, Lane::kF32},
  };
  for (const BinaryRow& row : kRows)
    if (row.name == name) return {row.run, row.result};
  return {};
}
#undef GENESIS_ROW

// f16 and bf16 memory as operands and results of the same loops.
struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

HWY_INLINE VFloat load(const Bf16* p) {
  const auto bits = hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(bits));
}
// To nearest even, by adding just under half a unit; NaN keeps its sign and stays one.
HWY_INLINE void store(VFloat x, Bf16* p) {
  const BitsTag u;
  const auto bits = hn::BitCast(u, x.v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff))));
  const auto nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u, 0x40));
  const auto half = hn::IfThenElse(hn::RebindMask(u, (x != x).m), nan, rounded);
  hn::StoreU(hn::DemoteTo(HalfTag(), hn::BitCast(kInt, half)), HalfTag(), reinterpret_cast<uint16_t*>(p));
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // with conversion instructions
using Float16Tag = hn::Rebind<hwy::float16_t, FloatTag>;
HWY_INLINE VFloat load(const Half* p) {
  return hn::PromoteTo(kFloat, hn::LoadU(Float16Tag(), reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void store(VFloat x, Half* p) {
  hn::StoreU(hn::DemoteTo(Float16Tag(), x.v), Float16Tag(), reinterpret_cast<hwy::float16_t*>(p));
}
#else
HWY_INLINE VFloat load(const Half* p) {
  alignas(64) float x[lanes()];
  for (size_t i = 0; i < lanes(); ++i) x[i] = std::bit_cast<f16>(p[i]);
  return load(x);
}
HWY_INLINE void store(VFloat v, Half* p) {
  alignas(64) float x[lanes()];
  store(v, x);
  for (size_t i = 0; i < lanes(); ++i) p[i] = std::bit_cast<Half>(f16(x[i]));
}
#endif

template <class T>
void load_half(const TileCall& c) {
  const T* in = static_cast<const T*>(c.in[0]);
  float* out = static_cast<float*>(c.out);
  const size_t n = static_cast<size_t>(c.n), whole = n - n % lanes();
  for (size_t i = 0; i < whole; i += lanes()) store(load(in + i), out + i);
  if (whole < n) store_some(load_some(in + whole, n - whole), out + whole, n - whole);
}
template <class T>
void store_half(const TileCall& c) {
  const float* in = static_cast<const float*>(c.in[0]);
  T* out = static_cast<T*>(c.out);
  const size_t n = static_cast<size_t>(c.n), whole = n - n % lanes();
  for (size_t i = 0; i < whole; i += lanes()) store(load(in + i), out + i);
  if (whole < n) store_some(load_some(in + whole, n - whole), out + whole, n - whole);
}

TileFunction find_half(DType dtype, bool is_load) {
  if (dtype == DType::bf16) return is_load ? load_half<Bf16> : store_half<Bf16>;
  return is_load ? load_half<Half> : store_half<Half>;
}

// Whole cache lines go past the cache; the ends go through it.
void stream(const uint8_t* from, uint8_t* to, size_t bytes) {
  const hn::ScalableTag<uint8_t> tag;
  const size_t step = hn::Lanes(tag);
  const size_t head = std::min(bytes, (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (size_t j = 0; j < 64; j += step) hn::Stream(hn::LoadU(tag, from + i + j), tag, to + i + j);
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(find_binary);
HWY_EXPORT(find_half);
HWY_EXPORT(stream);

Formula find_f32_binary(std::string_view name) { return HWY_DYNAMIC_DISPATCH(find_binary)(name); }
TileFunction find_half_load(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_half)(dtype, true); }
TileFunction find_half_store(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_half)(dtype, false); }
void stream_copy(const void* from, void* to, size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream)(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), bytes);
}

void finish_streams() { hwy::FlushStream(); }

}  // namespace genesis::cpu
#endif
