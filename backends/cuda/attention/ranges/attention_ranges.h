// Attention of rows that hold several texts, or see a window: products by tensor cores, of those tiles of keys that some query of a
// block sees. 16 bits, heads of 64 and 128. Used by range_ways.cpp.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {

std::optional<std::string> range_attention_declines(const AttentionShape& shape);
void run_range_attention(const AttentionShape& shape, const AttentionData& data,
                         const KernelContext& context);
// Its scratch is plain_gradient_scratch().
std::optional<std::string> range_gradient_declines(const AttentionShape& shape);
void run_range_gradient(const AttentionShape& shape, const AttentionData& data, const KernelContext& context);

}  // namespace genesis::cuda
