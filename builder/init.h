// Initializers of parameters, with PyTorch's names and formulas (torch.nn.init). The values of a parameter depend only on the
// seed and the parameter's name, never on the order in which a model is built.
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

// Describes the initial values of a tensor; make() turns it into numbers.
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
// `a` is the slope of the leaky_relu that follows; PyTorch's default for Linear is a = sqrt(5).
inline Init kaiming_uniform(double a = 0) { return {Kind::kKaimingUniform, a}; }
inline Init kaiming_normal(double a = 0) { return {Kind::kKaimingNormal, a}; }

// Zeros that take no memory, for callers that set the parameter's values before anything reads them.
inline Init unset() { return {Kind::kUnset}; }

// Holds fan_in and fan_out of a weight [out, in, ...], as PyTorch counts them.
struct Fans {
  double in, out;
};
// Throws Error for rank < 2.
Fans fans_of(const Shape& shape);

// Returns a tensor of `type`, which must be a float type, filled for the parameter `name`.
Tensor make(const Init& init, const TensorType& type, uint64_t seed, const std::string& name);

}  // namespace genesis::init
