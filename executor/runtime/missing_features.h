// Tells which optional features this build lacks because a library was missing when it was made. The feature itself reports the
// same reason when it is used.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// Returns a sentence for each missing feature: what it would do, and how to get it.
std::vector<std::string> missing_features();

// Returns an empty text if the build has CUDA (cuda_device.cpp, no_cuda.cpp).
std::string why_no_cuda_device();

}  // namespace genesis
