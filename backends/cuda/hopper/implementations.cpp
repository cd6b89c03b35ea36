#include "backends/cuda/hopper/implementations.h"

#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {

std::optional<std::string> why_no_hopper_here() {
  constexpr int kHopper = 9;
  static const std::optional<std::string> why =
      why_no_chip_here(kHopper, kHopper, "Hopper chips, of compute capability 9");
  return why;
}

}  // namespace genesis::cuda
