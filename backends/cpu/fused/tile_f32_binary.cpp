// Vectorized micro-ops for f32 formulas of two and three operands. A look-up returns the version for this CPU's instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/fused/tile_f32_binary.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/simd/highway_targets.h"

#include "backends/cpu/fused/tile_functions.h"
#include "backends/cpu/fused/tile_micro_ops-inl.h"
#include "backends/cpu/simd/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

using namespace simd;

struct BinaryRow {
  std::string_view name;
  std::array<MicroOps::Run, 3> run;  // indexed by the operand that is in registers
  LaneType result;
};

template <class F>
constexpr std::array<MicroOps::Run, 3> kQuick = {&MicroOps::left<F>, &MicroOps::right<F>, nullptr};
template <class F>
constexpr std::array<MicroOps::Run, 3> kSlow = {&MicroOps::slow_binary<F, true>,
                                                &MicroOps::slow_binary<F, false>, nullptr};
constexpr std::array<MicroOps::Run, 3> kWhere = {&MicroOps::where<0>, &MicroOps::where<1>,
                                                 &MicroOps::where<2>};

#define GENESIS_ROW(name, micro_ops, result)                                                      \
  BinaryRow {                                                                                     \
#name, micro_ops < decltype([](auto... x) HWY_ATTR { return name(x...); })>, LaneType::result \
  }

Formula find_binary(std::string_view name) {
  static constexpr BinaryRow kRows[] = {
      GENESIS_ROW(add, kQuick, kF32),
      GENESIS_ROW(sub, kQuick, kF32),
      GENESIS_ROW(mul, kQuick, kF32),
      GENESIS_ROW(div, kQuick, kF32),
      GENESIS_ROW(maximum, kQuick, kF32),
      GENESIS_ROW(minimum, kQuick, kF32),
      GENESIS_ROW(floordiv, kSlow, kF32),
      GENESIS_ROW(pow, kSlow, kF32),
      GENESIS_ROW(atan2, kSlow, kF32),
      GENESIS_ROW(remainder, kSlow, kF32),
      GENESIS_ROW(eq, kQuick, kBool),
      GENESIS_ROW(ne, kQuick, kBool),
      GENESIS_ROW(lt, kQuick, kBool),
      GENESIS_ROW(le, kQuick, kBool),
      GENESIS_ROW(gt, kQuick, kBool),
      GENESIS_ROW(ge, kQuick, kBool),
      BinaryRow{"where", kWhere, LaneType::kF32},
  };
  for (const BinaryRow& row : kRows)
    if (row.name == name) {
      Formula formula{.result = row.result};
      for (size_t k = 0; k < row.run.size(); ++k)
        formula.micro_ops[k] = reinterpret_cast<MicroOpFunction>(row.run[k]);
      return formula;
    }
  return {};
}
#undef GENESIS_ROW

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(find_binary);
Formula find_f32_binary(std::string_view name) { return HWY_DYNAMIC_DISPATCH(find_binary)(name); }

}  // namespace genesis::cpu
#endif
