// Tells which chips this machine has, for rows of kernel tables that serve only some chips. A plan may be made
// without a GPU, or on a machine with several different ones: there the row is kept, and falls back at run time.
#pragma once

#include <optional>
#include <string>

namespace genesis::cuda {

// Returns why no GPU of this machine has a major compute capability from `first` to `last`; empty if one has, or if
// there is no GPU to ask. `which` names the chips: "Hopper chips, of compute capability 9". Only asks the driver and
// opens no device.
std::optional<std::string> why_no_chip_here(int first, int last, const std::string& which);

// KernelImpl::why_not_here of rows whose kernels need bulk copies into shared memory and programmatic dependent
// launch (PDL).
std::optional<std::string> why_no_early_starts_here();

}  // namespace genesis::cuda
