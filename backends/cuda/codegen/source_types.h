// How element types are called in generated CUDA C++ (formula_vocabulary.h). Used by fused_source.cpp and
// reduce_source.cpp.
#pragma once

#include <string_view>

#include "schema/core/dtype.h"

namespace genesis::cuda {

// In memory: "float", "bf16", "signed char", ...
inline std::string_view memory_type(DType dtype) {
  static constexpr std::string_view kTypes[] = {"float",         "double", "f16", "bf16",  "signed char",
                                                "unsigned char", "short",  "int", "int64", "bool"};
  return kTypes[static_cast<size_t>(dtype)];
}

// What one element is held in: "float" (for f16 and bf16 too), "double", "Integer" or "bool".
inline std::string_view lane_type(DType dtype) {
  if (dtype == DType::f64) return "double";
  if (is_float(dtype)) return "float";
  return is_integer(dtype) ? "Integer" : "bool";
}

}  // namespace genesis::cuda
