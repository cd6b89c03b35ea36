// Upper limits of the sizes in a configuration of the zoo. Within them no product of a few sizes overflows while a layer computes
// it, and no loop over layers runs until memory is exhausted.
#pragma once

#include <cstdint>
#include <string_view>

namespace genesis::models {

// Limits of a width, a vocabulary size or a number of positions; of the number and width of heads; of the number of layers. All
// are far above those of any existing model.
inline constexpr int64_t kMaxFeatures = int64_t{1} << 40, kMaxHeads = 1 << 20, kMaxLayers = 1 << 14;

// Throws Error that names the setting if `size` is not positive or exceeds `most`.
void check_size(std::string_view model, std::string_view setting, int64_t size, int64_t most = kMaxFeatures);

}  // namespace genesis::models
