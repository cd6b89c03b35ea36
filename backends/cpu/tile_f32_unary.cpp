// f32 tile functions of one operand, vectorised; chosen for the machine when looked up. Used by
// tile_functions.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile_f32_unary.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
#include "backends/cpu/highway_targets.h"

#include "backends/cpu/tile_loops.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

using namespace simd;

struct UnaryRow {
  std::string_view name;
  TileFunction run;
  Lane result;
};

// A formula's name and its loop. The lambda is the only way to pass an overloaded function as a type.
#define GENESIS_ROW(name, loop, result)                                                   \
  UnaryRow {                                                                              \
#name, &loop < decltype([](auto... x) HWY_ATTR { return name(x...); })>, Lane::result \
  }

Formula find_unary(std::string_view name) {
  static constexpr UnaryRow kRows[] = {
      GENESIS_ROW(neg, run_unary, kF32),         GENESIS_ROW(abs, run_unary, kF32),
      GENESIS_ROW(square, run_unary, kF32),      GENESIS_ROW(sign, run_unary, kF32),
      GENESIS_ROW(floor, run_unary, kF32),       GENESIS_ROW(ceil, run_unary, kF32),
      GENESIS_ROW(round, run_unary, kF32),       GENESIS_ROW(exp, run_unary, kF32),
      GENESIS_ROW(log, run_unary, kF32),         GENESIS_ROW(log1p, run_unary, kF32),
      GENESIS_ROW(expm1, run_unary, kF32),       GENESIS_ROW(sqrt, run_unary, kF32),
      GENESIS_ROW(rsqrt, run_unary, kF32),       GENESIS_ROW(reciprocal, run_unary, kF32),
      GENESIS_ROW(sin, run_unary, kF32),         GENESIS_ROW(cos, run_unary, kF32),
      GENESIS_ROW(tan, run_unary, kF32),         GENESIS_ROW(asin, run_unary, kF32),
      GENESIS_ROW(acos, run_unary, kF32),        GENESIS_ROW(atan, run_unary, kF32),
      GENESIS_ROW(sinh, run_unary, kF32),        GENESIS_ROW(cosh, run_unary, kF32),
      GENESIS_ROW(tanh, run_unary, kF32),        GENESIS_ROW(erf, run_unary, kF32),
      GENESIS_ROW(sigmoid, run_unary, kF32),     GENESIS_ROW(relu, run_unary, kF32),
      GENESIS_ROW(leaky_relu, run_unary1, kF32), GENESIS_ROW(elu, run_unary1, kF32),
      GENESIS_ROW(silu, run_unary, kF32),        GENESIS_ROW(gelu, run_unary, kF32),
      GENESIS_ROW(gelu_tanh, run_unary, kF32),   GENESIS_ROW(softplus, run_unary2, kF32),
      GENESIS_ROW(hardswish, run_unary, kF32),   GENESIS_ROW(mish, run_unary, kF32),
      GENESIS_ROW(clamp, run_unary2, kF32),      GENESIS_ROW(isnan, run_unary, kBool),
      GENESIS_ROW(isinf, run_unary, kBool),      GENESIS_ROW(isfinite, run_unary, kBool),
  };
  for (const UnaryRow& row : kRows)
    if (row.name == name) return {row.run, row.result};
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
