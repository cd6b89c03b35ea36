// Vectorized micro-ops for f32 formulas of one operand. A look-up returns the version for this CPU's instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/fused/tile_f32_unary.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/simd/highway_targets.h"

#include "backends/cpu/fused/tile_functions.h"
#include "backends/cpu/fused/tile_micro_ops-inl.h"
#include "backends/cpu/simd/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

using namespace simd;

// A formula of schema/ops/elementwise/formulas.h with its micro-op.
struct UnaryRow {
  std::string_view name;
  MicroOps::Run run;
  LaneType result;
};

// A row: the formula's name, which is also that of its function in simd_math.h; the kind of micro-op (`unary` unrolls the formula
// over the vectors of a block, `slow_unary` loops over them to keep the code small); the number of parameters; and the lane type
// of the result. A lambda is the only way to pass an overloaded function as a type.
#define GENESIS_ROW(name, micro_op, parameters, result)                                                \
  UnaryRow {                                                                                           \
#name, &MicroOps::micro_op < decltype([](auto... x) HWY_ATTR { return name(x...); }), parameters>, \
        LaneType::result                                                                               \
  }

Formula find_unary(std::string_view name) {
  static constexpr UnaryRow kRows[] = {
      GENESIS_ROW(neg, unary, 0, kF32),        GENESIS_ROW(abs, unary, 0, kF32),
      GENESIS_ROW(square, unary, 0, kF32),     GENESIS_ROW(sign, unary, 0, kF32),
      GENESIS_ROW(floor, unary, 0, kF32),      GENESIS_ROW(ceil, unary, 0, kF32),
      GENESIS_ROW(round, unary, 0, kF32),      GENESIS_ROW(exp, unary, 0, kF32),
      GENESIS_ROW(log, slow_unary, 0, kF32),   GENESIS_ROW(log1p, slow_unary, 0, kF32),
      GENESIS_ROW(expm1, slow_unary, 0, kF32), GENESIS_ROW(sqrt, unary, 0, kF32),
      GENESIS_ROW(rsqrt, unary, 0, kF32),      GENESIS_ROW(reciprocal, unary, 0, kF32),
      GENESIS_ROW(sin, slow_unary, 0, kF32),   GENESIS_ROW(cos, slow_unary, 0, kF32),
      GENESIS_ROW(tan, slow_unary, 0, kF32),   GENESIS_ROW(asin, slow_unary, 0, kF32),
      GENESIS_ROW(acos, slow_unary, 0, kF32),  GENESIS_ROW(atan, slow_unary, 0, kF32),
      GENESIS_ROW(sinh, slow_unary, 0, kF32),  GENESIS_ROW(cosh, slow_unary, 0, kF32),
      GENESIS_ROW(tanh, unary, 0, kF32),       GENESIS_ROW(erf, slow_unary, 0, kF32),
      GENESIS_ROW(sigmoid, unary, 0, kF32),    GENESIS_ROW(relu, unary, 0, kF32),
      GENESIS_ROW(leaky_relu, unary, 1, kF32), GENESIS_ROW(elu, slow_unary, 1, kF32),
      GENESIS_ROW(silu, unary, 0, kF32),       GENESIS_ROW(gelu, unary, 0, kF32),
      GENESIS_ROW(gelu_tanh, unary, 0, kF32),  GENESIS_ROW(softplus, slow_unary, 2, kF32),
      GENESIS_ROW(hardswish, unary, 0, kF32),  GENESIS_ROW(mish, slow_unary, 0, kF32),
      GENESIS_ROW(clamp, unary, 2, kF32),      GENESIS_ROW(isnan, unary, 0, kBool),
      GENESIS_ROW(isinf, unary, 0, kBool),     GENESIS_ROW(isfinite, unary, 0, kBool),
  };
  for (const UnaryRow& row : kRows)
    if (row.name == name)
      return {.micro_ops = {reinterpret_cast<MicroOpFunction>(row.run)}, .result = row.result};
  return {};
}
#undef GENESIS_ROW

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(find_unary);
Formula find_f32_unary(std::string_view name) { return HWY_DYNAMIC_DISPATCH(find_unary)(name); }

}  // namespace genesis::cpu
#endif
