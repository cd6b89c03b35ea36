// Limits of the sizes in a configuration of the zoo. Within them no product of a few sizes overflows where a layer computes it, and no
// loop over layers runs until memory is gone. Used by the models of the zoo.
#pragma once

#include <cstdint>
#include <string_view>

namespace genesis::models {

// Far above every model there is: of a width, a vocabulary, a number of positions; of heads and their width; of layers.
inline constexpr int64_t kMaxFeatures = int64_t{1} << 40, kMaxHeads = 1 << 20, kMaxLayers = 1 << 14;

// Throws Error that names the setting for a size that is not positive, or above `most`.
void check_size(std::string_view model, std::string_view setting, int64_t size, int64_t most = kMaxFeatures);

}  // namespace genesis::models
