// Names of element types in generated CUDA C++ (formula_vocabulary.h).
#pragma once

#include <string_view>

#include "schema/core/dtype.h"

namespace genesis::cuda {

// Returns the type of an element in memory: "float", "bf16", "signed char", ...
inline std::string_view memory_type(DType dtype) {
  static constexpr std::string_view kTypes[] = {"float",         "double", "f16", "bf16",  "signed char",
                                                "unsigned char", "short",  "int", "int64", "bool"};
  return kTypes[static_cast<size_t>(dtype)];
}

// Returns the type in which an element is computed: "float" (for f16 and bf16 too), "double", "Integer" or "bool".
inline std::string_view lane_type(DType dtype) {
  if (dtype == DType::f64) return "double";
  if (is_float(dtype)) return "float";
  return is_integer(dtype) ? "Integer" : "bool";
}

}  // namespace genesis::cuda
