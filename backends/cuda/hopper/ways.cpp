#include "backends/cuda/hopper/ways.h"

#include <cuda_runtime_api.h>

namespace genesis::cuda {
namespace {

// Asks the driver alone: no device is opened for it.
std::optional<std::string> look_for_hopper() {
  constexpr int kHopper = 9;
  int count = 0, major = 0;
  std::string seen;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  for (int device = 0; device < count; ++device) {
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess)
      return std::nullopt;
    if (major == kHopper) return std::nullopt;
    seen = std::to_string(major);
  }
  if (count == 0) return std::nullopt;
  return "for Hopper chips, of compute capability 9: this machine has one of " + seen;
}

}  // namespace

std::optional<std::string> why_no_hopper_here() {
  static const std::optional<std::string> why = look_for_hopper();
  return why;
}

}  // namespace genesis::cuda
