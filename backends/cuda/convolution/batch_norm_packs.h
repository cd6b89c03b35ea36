// batch_norm and its gradient with the channels last, at the speed of memory: a thread keeps a pack of channels in registers and
// walks down the rows with several loads in flight.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl packed_batch_norm();
KernelImpl packed_batch_norm_grad();

// The kernels for any layout, in kernels/nn/batch_norm.cu. They run where a buffer is not aligned to packs.
void run_batch_norm_chunks(const KernelContext& c);
void run_batch_norm_grad_chunks(const KernelContext& c);
int64_t batch_norm_chunk_bytes(const KernelQuery& query);  // scratch memory

}  // namespace genesis::cuda
