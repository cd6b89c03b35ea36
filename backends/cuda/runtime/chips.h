// Tells which chips this machine has: for rows of kernel tables that serve only some chips, and for the sizes that
// plans depend on. A plan may be made without a GPU, or on a machine with several different ones: there a row is
// kept, and falls back at run time.
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

// The facts of a chip that plans depend on: its multiprocessors, and the speeds of its memory and of matrix products in
// 16 bits, as far as kernels reach them. The default values are those of an H100 (SXM).
struct PlannedChip {
  int multiprocessors = 132;
  double bytes_per_second = 3.35e12;
  double flops_per_second = 5e14;
};

// Returns the facts of a device; those of an H100 if there is no such device. Only asks the driver and opens no
// device.
PlannedChip planned_chip(int device);
// Does the same for the device that this thread uses. All plans of a machine with several kinds of chips should be
// made for one of them.
const PlannedChip& planned_chip();

}  // namespace genesis::cuda
