// The implementation `few_tiles` of convolution: maps so small, as those of a single picture are, that tiles of them do not fill the
// chip. The blocks of a cluster share the terms of a tile (split-K), and each finishes some of its rows.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl few_tiles_convolution();

}  // namespace genesis::cuda
