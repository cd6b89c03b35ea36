#include "backends/cuda/runtime/chips.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cuda/runtime/by_device.h"

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

namespace {

// Operations in 16 bits per clock and multiprocessor: CUDA C++ Programming Guide, throughput of tensor cores.
double flops_per_clock(int major, int minor) {
  if (major >= 10) return 8192;
  if (major == 9) return 4096;
  return minor == 0 ? 2048 : 1024;
}

}  // namespace

PlannedChip planned_chip(int device) {
  int count = 0, multiprocessors = 0, clock_khz = 0, memory_khz = 0, bus_bits = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  const std::pair<int*, cudaDeviceAttr> facts[] = {
      {&multiprocessors, cudaDevAttrMultiProcessorCount}, {&clock_khz, cudaDevAttrClockRate},
      {&memory_khz, cudaDevAttrMemoryClockRate},          {&bus_bits, cudaDevAttrGlobalMemoryBusWidth},
      {&major, cudaDevAttrComputeCapabilityMajor},        {&minor, cudaDevAttrComputeCapabilityMinor}};
  const bool known = device < count && std::ranges::all_of(facts, [&](const auto& fact) {
                       return cudaDeviceGetAttribute(fact.first, fact.second, device) == cudaSuccess &&
                              (*fact.first > 0 || fact.first == &minor);
                     });
  cudaGetLastError();
  if (!known) return {};
  constexpr double kReached = 0.47, kTransfersPerClock = 2;
  return {.multiprocessors = multiprocessors,
          .bytes_per_second = kTransfersPerClock * 1e3 * memory_khz * bus_bits / 8,
          .flops_per_second = kReached * 1e3 * clock_khz * flops_per_clock(major, minor) * multiprocessors};
}

const PlannedChip& planned_chip() {
  static ByDevice<PlannedChip> chips(planned_chip);
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) device = 0;
  cudaGetLastError();
  return chips[device];
}

std::optional<std::string> why_no_early_starts_here() {
  constexpr int kFirst = 9;
  static const std::optional<std::string> why =
      why_no_chip_here(kFirst, std::numeric_limits<int>::max(),
                       "chips of compute capability 9 and later, which start kernels early");
  return why;
}

}  // namespace genesis::cuda
