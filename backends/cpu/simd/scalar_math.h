// The formulas of schema/ops/elementwise/formulas.h for single numbers: double, and integers that wrap around as in PyTorch.
#pragma once

#include <cmath>
#include <cstdint>

namespace genesis::cpu::scalar {

using int64 = int64_t;
using uint64 = uint64_t;
#include "schema/ops/elementwise/formula_integer.h"

inline double select(bool c, double a, double b) { return c ? a : b; }
inline double normal_tail(double x) { return 0.5 * std::erfc(x * 0.70710678118654752440); }
inline double round(double x) { return std::nearbyint(x); }
using std::abs, std::floor, std::ceil, std::sqrt, std::exp, std::log, std::log1p, std::expm1, std::sin,
    std::cos, std::tan, std::asin, std::acos, std::atan, std::sinh, std::cosh, std::tanh, std::erf, std::pow,
    std::atan2, std::fmod, std::copysign;

#define GENESIS_FORMULA inline
#include "schema/ops/elementwise/formulas.h"
#undef GENESIS_FORMULA

}  // namespace genesis::cpu::scalar
