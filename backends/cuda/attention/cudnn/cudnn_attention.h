// Attention and its gradient in f16 and bf16 by cuDNN, which fuses the whole of one into a kernel. Used by
// cudnn_ways.cpp. Where it declines, or cannot make a plan within the scratch that was booked, the
// tiles of attention_plain.cu take over.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/cudnn/cudnn_graph.h"

namespace genesis::cuda {

// Asks no GPU and no library.
std::optional<std::string> cudnn_attention_declines(const AttentionShape& shape);
int64_t cudnn_forward_scratch(const AttentionShape& shape);
int64_t cudnn_backward_scratch(const AttentionShape& shape);

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual bool run(const AttentionData& data) const = 0;  // false: not started
};

// On the current device, made once for all nodes of one shape; null where cuDNN cannot, or is not there. `with_lse` is
// for an attention.
std::shared_ptr<const CudnnAttention> shared_cudnn_attention(const AttentionShape& shape, bool with_lse);

}  // namespace genesis::cuda
