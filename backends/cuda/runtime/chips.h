// Which chips this machine has, for rows of tables that serve some alone. A plan may be made without a GPU, or for one of several
// unlike ones: then a row hands its nodes on where it runs.
#pragma once

#include <optional>
#include <string>

namespace genesis::cuda {

// Why no GPU of this machine has a compute capability that begins with `first` to `last`; empty where one has, and where there
// is no GPU to ask. `which` says it in words: "Hopper chips, of compute capability 9". Asks the driver alone: no device is
// opened for it.
std::optional<std::string> why_no_chip_here(int first, int last, const std::string& which);

// KernelImpl::why_not_here of rows whose kernels copy into shared memory by themselves and start early (PDL).
std::optional<std::string> why_no_early_starts_here();

}  // namespace genesis::cuda
