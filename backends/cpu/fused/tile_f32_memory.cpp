// Vectorized micro-ops that read and write memory, with the conversions of the 16-bit types; the loop that runs a chain; and
// copies around the cache. A look-up returns the version for this CPU's instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/fused/tile_f32_memory.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/simd/highway_targets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/fused/tile_functions.h"
#include "backends/cpu/fused/tile_micro_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace simd {

// bf16 and f16 values as they lie in memory.
struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};
using Bits16 = hn::Vec<HalfTag>;

HWY_INLINE VFloat load(const Bf16* p) {
  const auto bits = hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(bits));
}
// Rounds to nearest even, by adding just under half a unit in the last place. NaN keeps its sign and stays NaN.
HWY_INLINE Bits16 to_bf16(Vector x) {
  const BitsTag u;
  const auto bits = hn::BitCast(u, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff))));
  const auto nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u, 0x40));  // 0x40: the bit of quiet NaNs
  const auto half = hn::IfThenElse(hn::RebindMask(u, (VFloat(x) != VFloat(x)).m), nan, rounded);
  return hn::DemoteTo(HalfTag(), hn::BitCast(kInt, half));
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // these have instructions that convert f16
using Float16Tag = hn::Rebind<hwy::float16_t, FloatTag>;
HWY_INLINE VFloat load(const Half* p) {
  return hn::PromoteTo(kFloat, hn::LoadU(Float16Tag(), reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE Bits16 to_f16(Vector x) { return hn::BitCast(HalfTag(), hn::DemoteTo(Float16Tag(), x)); }
#else
HWY_INLINE VFloat load(const Half* p) {
  alignas(64) float x[lanes()];
  for (size_t i = 0; i < lanes(); ++i) x[i] = std::bit_cast<f16>(p[i]);
  return load(x);
}
HWY_INLINE Bits16 to_f16(Vector v) {
  alignas(64) float x[lanes()];
  alignas(64) uint16_t y[lanes()];
  store(VFloat(v), x);
  for (size_t i = 0; i < lanes(); ++i) y[i] = std::bit_cast<uint16_t>(f16(x[i]));
  return hn::LoadU(HalfTag(), y);
}
#endif

// Converts a vector to the form that it has in memory; the pointer only selects the type.
HWY_INLINE auto to_memory(Vector x, float*) { return x; }
HWY_INLINE auto to_memory(Vector x, Bf16*) { return to_bf16(x); }
HWY_INLINE auto to_memory(Vector x, Half*) { return to_f16(x); }
HWY_INLINE auto to_memory(Vector x, uint8_t*) {
  return hn::DemoteTo(ByteTag(), hn::And(hn::BitCast(kInt, x), hn::Set(kInt, 1)));
}

// Writes a vector to memory, around the cache if `kAround`; vectors of less than 16 bytes are always written through the cache.
template <bool kAround>
struct Writer {
  template <class T>
  static HWY_INLINE void write(Vector x, T* to) {
    const auto v = to_memory(x, to);
    using Element = hn::TFromV<decltype(v)>;
    const hn::Rebind<Element, FloatTag> tag;
    Element* p = reinterpret_cast<Element*>(to);
    if constexpr (kAround && lanes() * sizeof(Element) >= 16)
      hn::Stream(v, tag, p);
    else
      hn::StoreU(v, tag, p);
  }
};

template <class T>
MicroOps::Run write_micro_op(bool around) {
  return around ? &MicroOps::write<T, Writer<true>> : &MicroOps::write<T, Writer<false>>;
}

}  // namespace simd

using namespace simd;

MicroOpFunction load_micro_op(DType dtype) {
  const MicroOps::Run run = dtype == DType::f32    ? &MicroOps::read<float>
                            : dtype == DType::bf16 ? &MicroOps::read<Bf16>
                            : dtype == DType::f16  ? &MicroOps::read<Half>
                                                   : &MicroOps::read<uint8_t>;
  return reinterpret_cast<MicroOpFunction>(run);
}

MicroOpFunction store_micro_op(DType dtype, bool around) {
  const MicroOps::Run run = dtype == DType::f32    ? write_micro_op<float>(around)
                            : dtype == DType::bf16 ? write_micro_op<Bf16>(around)
                            : dtype == DType::f16  ? write_micro_op<Half>(around)
                                                   : write_micro_op<uint8_t>(around);
  return reinterpret_cast<MicroOpFunction>(run);
}

MicroOpFunction end_micro_op() { return reinterpret_cast<MicroOpFunction>(&MicroOps::finish); }

// Runs a chain on fewer elements than a block: copies every operand to memory of a whole block, runs the chain on it and copies
// the results back.
class PartialBlock {
 public:
  // `first`: index of the first element; n: number of elements.
  PartialBlock(const MicroOp* micro_ops, size_t count, size_t first, size_t n) : first_(first), n_(n) {
    for (size_t k = 0; k < count; ++k) {
      micro_ops_[k] = micro_ops[k];
      for (size_t m = 0; m < 2; ++m)
        if (micro_ops[k].memory[m] && !micro_ops[k].scalar[m])
          micro_ops_[k].memory[m] =
              copy_of(micro_ops[k].memory[m], micro_ops[k].element_bytes[m], micro_ops[k].writes);
    }
  }
  void run() {
    MicroOps::start(micro_ops_, 0, (n_ + lanes() - 1) / lanes());
    for (size_t k = 0; k < used_; ++k)
      if (copies_[k].written) std::memcpy(copies_[k].source, memory_[k], copies_[k].bytes);
  }

 private:
  struct Copy {
    const std::byte* operand;  // the address that micro-ops have: that of element 0
    std::byte* source;         // the address of element first_
    size_t bytes;
    bool written;  // true if a micro-op writes to the copy
  };

  // Returns the copy of an operand or result in memory_; micro-ops with the same address share one copy.
  std::byte* copy_of(std::byte* operand, size_t element_bytes, bool written) {
    size_t k = 0;
    while (k < used_ && copies_[k].operand != operand) ++k;
    if (k == used_) {
      copies_[used_++] = {operand, operand + first_ * element_bytes, n_ * element_bytes, false};
      std::memcpy(memory_[k], copies_[k].source, copies_[k].bytes);
    }
    copies_[k].written |= written;
    return memory_[k];
  }

  size_t first_, n_, used_ = 0;
  MicroOp micro_ops_[kMaxMicroOps];
  Copy copies_[kMaxChainMemory];
  alignas(64) std::byte memory_[kMaxChainMemory][block_elements() * sizeof(float)];
};

// The inputs of a chain that are not in a near cache. Their cache lines are prefetched before a block runs, in the order of
// elements, all inputs in turn. Without that the micro-ops would read a whole block of one input, then a whole block of the next,
// which is a third slower.
class FarInputs {
 public:
  static constexpr size_t kMany = 3;  // for this count and more, prefetch() loops over the inputs

  FarInputs(const MicroOp* micro_ops, size_t count) {
    for (size_t k = 0; k < count; ++k)
      for (size_t m = 0; m < 2; ++m)
        if (micro_ops[k].far[m] && !micro_ops[k].scalar[m])
          add(micro_ops[k].memory[m], micro_ops[k].element_bytes[m]);
  }
  size_t count() const { return count_; }
  // Prefetches the lines of the block that begins at element `block`. A compile-time count lets the compiler unroll the loop, so
  // that prefetching costs little; kMany stands for any larger count.
  template <size_t kCount>
  HWY_INLINE void prefetch(size_t block) const {
    const size_t count = kCount < kMany ? kCount : count_;
    for (size_t i = block; i < block + block_elements(); i += lanes())
      for (size_t k = 0; k < count; ++k) hwy::Prefetch(inputs_[k].memory + i * inputs_[k].element_bytes);
  }

 private:
  struct Input {
    const std::byte* memory;
    size_t element_bytes;
  };

  void add(const std::byte* memory, size_t element_bytes) {
    for (size_t k = 0; k < count_; ++k)
      if (inputs_[k].memory == memory) return;
    inputs_[count_++] = {memory, element_bytes};
  }

  size_t count_ = 0;
  Input inputs_[kMaxChainMemory];
};

// Runs all whole blocks from element i on and returns the end of the last one.
template <size_t kInputs>
size_t run_blocks(const MicroOp* micro_ops, const FarInputs& inputs, size_t i, size_t n) {
  for (; i + block_elements() <= n; i += block_elements()) {
    inputs.prefetch<kInputs>(i);
    MicroOps::start(micro_ops, i, kBlockVectors);
  }
  return i;
}

void run_chain(const MicroOp* micro_ops, size_t count, size_t n, size_t head) {
  size_t i = std::min(head, n);
  if (i > 0) PartialBlock(micro_ops, count, 0, i).run();
  const FarInputs inputs(micro_ops, count);
  constexpr decltype(&run_blocks<0>) kRun[] = {run_blocks<0>, run_blocks<1>, run_blocks<2>, run_blocks<3>};
  i = kRun[std::min(inputs.count(), FarInputs::kMany)](micro_ops, inputs, i, n);
  if (i < n) PartialBlock(micro_ops, count, i, n - i).run();
}

ChainFunction chain_runner() { return run_chain; }

// Copies bytes: whole cache lines of `to` are written around the cache, the two ends through it.
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

HWY_EXPORT(load_micro_op);
HWY_EXPORT(store_micro_op);
HWY_EXPORT(end_micro_op);
HWY_EXPORT(chain_runner);
HWY_EXPORT(stream);

MicroOpFunction find_load_micro_op(DType dtype) { return HWY_DYNAMIC_DISPATCH(load_micro_op)(dtype); }
MicroOpFunction find_store_micro_op(DType dtype, bool around_cache) {
  return HWY_DYNAMIC_DISPATCH(store_micro_op)(dtype, around_cache);
}
MicroOpFunction find_end_micro_op() { return HWY_DYNAMIC_DISPATCH(end_micro_op)(); }
ChainFunction find_chain_runner() { return HWY_DYNAMIC_DISPATCH(chain_runner)(); }
void stream_block(const void* from, void* to, size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream)(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), bytes);
}
void finish_streams() { hwy::FlushStream(); }

}  // namespace genesis::cpu
#endif
