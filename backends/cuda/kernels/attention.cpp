// attention and attention_grad on CUDA: which of the ways to compute them (attention.h) takes a node.
#include "backends/cuda/attention.h"

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

constexpr KernelImpl kForward[] = {
    {.name = "split keys",
     .run = run_split,
     .can_run = can_run<split_attention_declines>,
     .scratch_bytes = scratch_bytes<split_attention_scratch>,
     .prepare = prepare},
    {.name = "tiles", .run = run_plain, .can_run = can_run<plain_attention_declines>, .prepare = prepare}};
constexpr KernelImpl kBackward[] = {{.name = "tiles",
                                     .run = run_plain_grad,
                                     .can_run = can_run<plain_attention_declines>,
                                     .scratch_bytes = scratch_bytes<plain_gradient_scratch>,
                                     .prepare = prepare}};
constexpr OpKernels kOps[] = {{"attention", kForward}, {"attention_grad", kBackward}};

}  // namespace

std::span<const OpKernels> attention_kernels() { return kOps; }

}  // namespace genesis::cuda
