#include "backends/cuda/runtime/chips.h"

#include <cuda_runtime_api.h>

#include <limits>

namespace genesis::cuda {

std::optional<std::string> why_no_chip_here(int first, int last, const std::string& which) {
  int count = 0, major = 0;
  std::string seen;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  for (int device = 0; device < count; ++device) {
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess)
      return std::nullopt;
    if (first <= major && major <= last) return std::nullopt;
    seen = std::to_string(major);
  }
  if (count == 0) return std::nullopt;
  return "for " + which + ": this machine has one of " + seen;
}

std::optional<std::string> why_no_early_starts_here() {
  constexpr int kFirst = 9;
  static const std::optional<std::string> why =
      why_no_chip_here(kFirst, std::numeric_limits<int>::max(),
                       "chips of compute capability 9 and later, which start kernels early");
  return why;
}

}  // namespace genesis::cuda
