// Max pooling with the channels last: a thread has a pack of channels, so every load is 16 bytes.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl packed_max_pool();
KernelImpl packed_max_pool_grad();

}  // namespace genesis::cuda
