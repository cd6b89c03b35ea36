// Attention of rows that hold several texts or have a window, by tensor cores; only the tiles of keys that some query
// of a block sees are computed. 16 bits, and the head sizes of with_head_sizes() in range_tiles.h.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {

// Returns why the kernels, or those of the gradient, cannot compute a shape. Data must be aligned to 16 bytes.
std::optional<std::string> range_kernels_decline(const AttentionShape& shape);
void run_range_attention(const AttentionShape& shape, const AttentionData& data,
                         const KernelContext& context);
// The scratch memory of the gradient is plain_gradient_scratch().
void run_range_gradient(const AttentionShape& shape, const AttentionData& data, const KernelContext& context);

}  // namespace genesis::cuda
