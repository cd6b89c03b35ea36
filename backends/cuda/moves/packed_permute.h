// The implementation `packs` of permute: results whose innermost axes are short and lie far apart in x, as the colors of pictures do.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl packed_permute();

}  // namespace genesis::cuda
