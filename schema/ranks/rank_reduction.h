// The reductions that combine the values of several ranks into one.
#pragma once

#include <cstdint>
#include <string_view>

#include "schema/core/attributes.h"

namespace genesis {

enum class RankReduction : uint8_t { kSum, kMean, kMax, kMin };
template <>
struct EnumNames<RankReduction> {
  static constexpr std::string_view names[] = {"sum", "mean", "max", "min"};
};

}  // namespace genesis
