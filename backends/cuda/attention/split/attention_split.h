// Attention of few queries against many keys: the keys are split among blocks by shape, and the partial results are
// merged in order.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {

std::optional<std::string> split_attention_declines(const AttentionShape& shape);
int64_t split_attention_scratch(const AttentionShape& shape);
void run_split_attention(const AttentionShape& shape, const AttentionData& data);

}  // namespace genesis::cuda
