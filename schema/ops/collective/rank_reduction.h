// How values of several ranks become one.
#pragma once

namespace genesis {

enum class RankReduction { kSum, kMean, kMax, kMin };

}  // namespace genesis
