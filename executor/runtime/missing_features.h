// What a build may lack, because it was made where a library was not. Used by `genesis-run info`; each feature says the
// same where it is asked for.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// A sentence for each feature that this build lacks: what it would do, and how to have it.
std::vector<std::string> missing_features();

// Empty where the build has CUDA (cuda_device.cpp, no_cuda.cpp).
std::string why_no_cuda_device();

}  // namespace genesis
