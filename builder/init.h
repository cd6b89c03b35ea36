// Initialisers of parameters, with PyTorch's names and formulas (torch.nn.init). A parameter's values depend
// on the seed and its name alone, never on the order in which a model is built.
#pragma once

#include <cstdint>
#include <string>

#include "schema/core/tensor.h"

namespace genesis::init {

enum class Kind : uint8_t {
  kConstant,
  kUniform,
  kNormal,
  kTruncNormal,
  kXavierUniform,
  kXavierNormal,
  kKaimingUniform,
  kKaimingNormal,
  kUnset
};

// What to fill a tensor with; turned into numbers by make().
struct Init {
  Kind kind = Kind::kConstant;
  double a = 0, b = 0;  // constant: value · uniform: low, high · normal: mean, std · xavier: gain · kaiming:
                        // negative slope
  double low = 0, high = 0;  // trunc_normal: bounds
};

inline Init constant(double value) { return {Kind::kConstant, value}; }
inline Init zeros() { return constant(0); }
inline Init ones() { return constant(1); }
inline Init uniform(double low, double high) { return {Kind::kUniform, low, high}; }
inline Init normal(double mean = 0, double std = 1) { return {Kind::kNormal, mean, std}; }
inline Init trunc_normal(double mean = 0, double std = 1, double low = -2, double high = 2) {
  return {Kind::kTruncNormal, mean, std, low, high};
}
inline Init xavier_uniform(double gain = 1) { return {Kind::kXavierUniform, gain}; }
inline Init xavier_normal(double gain = 1) { return {Kind::kXavierNormal, gain}; }
// For leaky_relu with slope `a`; PyTorch's default for Linear is a = sqrt(5).
inline Init kaiming_uniform(double a = 0) { return {Kind::kKaimingUniform, a}; }
inline Init kaiming_normal(double a = 0) { return {Kind::kKaimingNormal, a}; }

// Zeros that take no memory: for who gives the parameter its values before anybody reads them.
inline Init unset() { return {Kind::kUnset}; }

// fan_in and fan_out of a weight [out, in, ...], as PyTorch counts them. Throws Error for rank < 2.
struct Fans {
  double in, out;
};
Fans fans_of(const Shape& shape);

// A tensor of `type` (real) filled for the parameter `name`.
Tensor make(const Init& init, const TensorType& type, uint64_t seed, const std::string& name);

}  // namespace genesis::init
