// The implementations `fused` of attention and attention_grad: cuDNN, or our own kernels if it is missing or has no plan
// for the node on this chip. The scratch memory is enough for all.
#include <algorithm>

#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/attention/cudnn/cudnn_attention.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/kernels.h"

namespace genesis::cuda {
namespace {

struct Fused {
  AttentionShape shape;
  std::shared_ptr<const CudnnAttention> plan;  // null: use our own kernels
};

std::shared_ptr<const void> prepare_cudnn_attention(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  return std::make_shared<Fused>(Fused{shape, shared_cudnn_attention(shape, query.outputs.size() > 1)});
}

int64_t gradient_scratch(const AttentionShape& shape) {
  return std::max(cudnn_backward_scratch(shape), plain_gradient_scratch(shape));
}

void run_cudnn_attention(const KernelContext& c) {
  const auto& fused = c.prepared<Fused>();
  const AttentionData data = data_of(fused.shape, c);
  if (fused.plan && aligned_to_packs(c) && fused.plan->run(data)) return;
  run_ranges_or_tiles(fused.shape, data, c);
}

template <int64_t (*kScratch)(const AttentionShape&)>
KernelImpl implementation() {
  return {.name = "fused",
          .run = run_cudnn_attention,
          .can_run = can_run_shape<cudnn_attention_declines>,
          .scratch_bytes = scratch_of_shape<kScratch>,
          .prepare = prepare_cudnn_attention};
}

}  // namespace

bool fused_takes(const KernelQuery& query) {
  const std::span<const KernelImpl> rows = kernels_for(query.op.name());
  const auto fused = std::ranges::find(rows, "fused", &KernelImpl::name);
  return fused != rows.end() && is_allowed(query.disabled, query.op.name(), fused->name) &&
         !fused->can_run(query);
}

KernelImpl fused_attention_implementation() { return implementation<cudnn_forward_scratch>(); }
KernelImpl fused_gradient_implementation() { return implementation<gradient_scratch>(); }

}  // namespace genesis::cuda
