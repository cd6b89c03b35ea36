// The implementations `ranges` of attention and attention_grad.
#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/attention/ranges/attention_ranges.h"
#include "backends/cuda/device/packs.h"

namespace genesis::cuda {
namespace {

void run_forward(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = forward_data(shape, c);
  aligned(data) ? run_range_attention(shape, data, c) : run_plain_attention(shape, data);
}

void run_backward(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = backward_data(shape, c);
  aligned_to_packs(c) ? run_range_gradient(shape, data, c) : run_plain_gradient(shape, data);
}

}  // namespace

KernelImpl range_attention_implementation() {
  return {.name = "ranges",
          .run = run_forward,
          .can_run = can_run_shape<range_attention_declines>,
          .prepare = prepare_attention};
}

KernelImpl range_gradient_implementation() {
  return {.name = "ranges",
          .run = run_backward,
          .can_run = can_run_shape<range_gradient_declines>,
          .scratch_bytes = scratch_of_shape<plain_gradient_scratch>,
          .prepare = prepare_attention};
}

}  // namespace genesis::cuda
