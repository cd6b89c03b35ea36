// Attention of rows that hold several texts or have a window, by tensor cores; only the tiles of keys that some query
// of a block sees are computed. 16 bits, heads of 64 and 128.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {

std::optional<std::string> range_attention_declines(const AttentionShape& shape);
void run_range_attention(const AttentionShape& shape, const AttentionData& data,
                         const KernelContext& context);
// The scratch memory of the gradient is plain_gradient_scratch().
std::optional<std::string> range_gradient_declines(const AttentionShape& shape);
void run_range_gradient(const AttentionShape& shape, const AttentionData& data, const KernelContext& context);

}  // namespace genesis::cuda
