// Names how an optimizer keeps the moments of a parameter: as numbers, or as codes of 8 bits (schema/core/moment_codes.h).
#pragma once

#include "schema/core/attributes.h"

namespace genesis {

enum class MomentFormat : uint8_t { kF32, k8bit };

inline constexpr int64_t kMomentBlock = 256;  // consecutive values that share the scale of their codes

}  // namespace genesis

template <>
struct genesis::EnumNames<genesis::MomentFormat> {
  static constexpr std::string_view names[] = {"f32", "8bit"};
};
