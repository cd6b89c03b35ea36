// attention and attention_grad on CUDA: which of the ways to compute them (attention.h) takes a node.
#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/cudnn_attention.h"
#include "backends/cuda/device/packs.h"

namespace genesis::cuda {
namespace {

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<AttentionShape>(attention_shape(query));
}

template <std::optional<std::string> (*kDeclines)(const AttentionShape&)>
std::optional<std::string> can_run(const KernelQuery& query) {
  return kDeclines(attention_shape(query));
}

template <int64_t (*kScratch)(const AttentionShape&)>
int64_t scratch_bytes(const KernelQuery& query) {
  return kScratch(attention_shape(query));
}

// Packs of 16 bytes need rows that start at multiples of that; a view may start anywhere.
bool aligned(const AttentionData& d) {
  const auto bits =
      reinterpret_cast<uintptr_t>(d.q) | reinterpret_cast<uintptr_t>(d.k) | reinterpret_cast<uintptr_t>(d.v);
  return bits % 16 == 0;
}

void run_split(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = forward_data(shape, c);
  aligned(data) ? run_split_attention(shape, data) : run_plain_attention(shape, data);
}

void run_plain(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_plain_attention(shape, forward_data(shape, c));
}

void run_plain_grad(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_plain_gradient(shape, backward_data(shape, c));
}

// By cuDNN, or by the tiles when it cannot; a gradient by the kernel for Hopper chips ahead of both. The
// scratch is enough for any.
struct Fused {
  AttentionShape shape;
  std::shared_ptr<const CudnnAttention> plan;  // null: the tiles
  bool on_hopper = false;
};

std::shared_ptr<const void> prepare_fused(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  return std::make_shared<Fused>(Fused{shape, shared_cudnn_forward(shape, query.outputs.size() > 1)});
}

std::shared_ptr<const void> prepare_fused_grad(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  if (is_allowed(query.disabled, "attention_grad", "hopper_d64") && !hopper_gradient_declines(shape) &&
      has_hopper_gradient())
    return std::make_shared<Fused>(Fused{shape, nullptr, true});
  return std::make_shared<Fused>(Fused{shape, shared_cudnn_backward(shape)});
}

int64_t fused_grad_scratch(const AttentionShape& shape) {
  return std::max(
      {cudnn_backward_scratch(shape), plain_gradient_scratch(shape), hopper_gradient_scratch(shape)});
}

void run_fused(const KernelContext& c) {
  const auto& fused = c.prepared<Fused>();
  const AttentionData data = forward_data(fused.shape, c);
  if (fused.plan && aligned_to_packs(c) && fused.plan->run(data)) return;
  run_plain_attention(fused.shape, data);
}

void run_fused_grad(const KernelContext& c) {
  const auto& fused = c.prepared<Fused>();
  const AttentionData data = backward_data(fused.shape, c);
  if (fused.on_hopper && aligned_to_packs(c) && run_hopper_gradient(fused.shape, data, c)) return;
  if (fused.plan && aligned_to_packs(c) && fused.plan->run(data)) return;
  run_plain_gradient(fused.shape, data);
}

constexpr KernelImpl kForward[] = {
    {.name = "split_keys",
     .run = run_split,
     .can_run = can_run<split_attention_declines>,
     .scratch_bytes = scratch_bytes<split_attention_scratch>,
     .prepare = prepare},
    {.name = "fused",
     .run = run_fused,
     .can_run = can_run<cudnn_attention_declines>,
     .scratch_bytes = scratch_bytes<cudnn_forward_scratch>,
     .prepare = prepare_fused},
    {.name = "tiles", .run = run_plain, .can_run = can_run<plain_attention_declines>, .prepare = prepare}};
constexpr KernelImpl kBackward[] = {{.name = "fused",
                                     .run = run_fused_grad,
                                     .can_run = can_run<cudnn_attention_declines>,
                                     .scratch_bytes = scratch_bytes<fused_grad_scratch>,
                                     .prepare = prepare_fused_grad},
                                    {.name = "tiles",
                                     .run = run_plain_grad,
                                     .can_run = can_run<plain_attention_declines>,
                                     .scratch_bytes = scratch_bytes<plain_gradient_scratch>,
                                     .prepare = prepare}};
constexpr OpKernels kOps[] = {{"attention", kForward}, {"attention_grad", kBackward}};

}  // namespace

std::span<const OpKernels> attention_kernels() { return kOps; }

}  // namespace genesis::cuda
