// Attention and its gradient in f16 and bf16 by cuDNN, which fuses each into one kernel. If it declines, or cannot
// make a plan within the planned scratch memory, the tiles of attention_plain.cu run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/cudnn/cudnn_graph.h"

namespace genesis::cuda {

// These functions ask neither a GPU nor the library.
std::optional<std::string> cudnn_attention_declines(const AttentionShape& shape);
int64_t cudnn_forward_scratch(const AttentionShape& shape);
int64_t cudnn_backward_scratch(const AttentionShape& shape);

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual bool run(const AttentionData& data) const = 0;  // returns false if not started
};

// Returns the plan for the current device, which all nodes of one shape share; null if cuDNN is missing or cannot
// make it. `with_lse` matters for the forward pass only.
std::shared_ptr<const CudnnAttention> shared_cudnn_attention(const AttentionShape& shape, bool with_lse);

}  // namespace genesis::cuda
