// attention and attention_grad on CUDA: which of the ways to compute them (attention.h) takes a node.
#include <fmt/format.h>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/cudnn/cudnn_attention.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/ways.h"

namespace genesis::cuda {
namespace {

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<AttentionShape>(attention_shape(query));
}

template <std::optional<std::string> (*kDeclines)(const AttentionShape&)>
std::optional<std::string> can_run(const KernelQuery& query) {
  return kDeclines(attention_shape(query));
}

// Up to so many keys attention.fused is as fast as split keys or faster: a token of Qwen2.5-0.5B takes 1.25 and 1.30 ms at
// position 1000, 2.58 and 1.55 ms at 4000, and between the two lines meet at 1140 (bench/gpu/ways.py, H200).
constexpr int64_t kFewestKeysToSplit = 1152;

// How many keys there are, only the device knows while it runs; a plan knows how many the cache has room for. A cache with room
// for more has its keys split from the first token on, which costs little while they are few.
std::optional<std::string> split_keys_decline(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  if (auto why_not = split_attention_declines(shape)) return why_not;
  const bool is_fused = is_allowed(query.disabled, "attention", "fused") && !cudnn_attention_declines(shape);
  if (!is_fused || shape.keys >= kFewestKeysToSplit) return std::nullopt;
  return fmt::format("room for {} keys at most: with fewer than {} attention.fused is as fast", shape.keys,
                     kFewestKeysToSplit);
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

void run_range(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = forward_data(shape, c);
  aligned(data) ? run_range_attention(shape, data, c) : run_plain_attention(shape, data);
}

void run_range_backward(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = backward_data(shape, c);
  aligned_to_packs(c) ? run_range_gradient(shape, data, c) : run_plain_gradient(shape, data);
}

AttentionData data_of(const AttentionShape& shape, const KernelContext& c) {
  return shape.gradient ? backward_data(shape, c) : forward_data(shape, c);
}

void run_tiles(const AttentionShape& shape, const AttentionData& data) {
  shape.gradient ? run_plain_gradient(shape, data) : run_plain_attention(shape, data);
}

void run_plain(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_tiles(shape, data_of(shape, c));
}

// By cuDNN, or by the tiles when it cannot. The scratch is enough for either.
struct Fused {
  AttentionShape shape;
  std::shared_ptr<const CudnnAttention> plan;  // null: the tiles
};

std::shared_ptr<const void> prepare_fused(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  return std::make_shared<Fused>(Fused{shape, shared_cudnn_attention(shape, query.outputs.size() > 1)});
}

int64_t fused_grad_scratch(const AttentionShape& shape) {
  return std::max(cudnn_backward_scratch(shape), plain_gradient_scratch(shape));
}

void run_fused(const KernelContext& c) {
  const auto& fused = c.prepared<Fused>();
  const AttentionData data = data_of(fused.shape, c);
  if (fused.plan && aligned_to_packs(c) && fused.plan->run(data)) return;
  run_tiles(fused.shape, data);
}

constexpr KernelImpl kForward[] = {
    {.name = "split_keys",
     .run = run_split,
     .can_run = split_keys_decline,
     .scratch_bytes = scratch_bytes<split_attention_scratch>,
     .prepare = prepare},
    {.name = "ranges", .run = run_range, .can_run = can_run<range_attention_declines>, .prepare = prepare},
    {.name = "fused",
     .run = run_fused,
     .can_run = can_run<cudnn_attention_declines>,
     .scratch_bytes = scratch_bytes<cudnn_forward_scratch>,
     .prepare = prepare_fused},
    {.name = "tiles", .run = run_plain, .can_run = can_run<plain_attention_declines>, .prepare = prepare}};
constexpr KernelImpl kBackward[] = {{.name = "ranges",
                                     .run = run_range_backward,
                                     .can_run = can_run<range_gradient_declines>,
                                     .scratch_bytes = scratch_bytes<plain_gradient_scratch>,
                                     .prepare = prepare},
                                    {.name = "fused",
                                     .run = run_fused,
                                     .can_run = can_run<cudnn_attention_declines>,
                                     .scratch_bytes = scratch_bytes<fused_grad_scratch>,
                                     .prepare = prepare_fused},
                                    {.name = "tiles",
                                     .run = run_plain,
                                     .can_run = can_run<plain_attention_declines>,
                                     .scratch_bytes = scratch_bytes<plain_gradient_scratch>,
                                     .prepare = prepare}};

}  // namespace

std::span<const KernelImpl> general_gradient_ways() { return kBackward; }

std::span<const OpKernel> attention_kernels() {
  static const OpKernel ops[] = {{"attention", kForward[0]},
                                 {"attention", kForward[1]},
                                 {"attention", kForward[2]},
                                 {"attention", kForward[3]},
                                 {"attention_grad", hopper_gradient_way()},
                                 {"attention_grad", kBackward[0]},
                                 {"attention_grad", kBackward[1]},
                                 {"attention_grad", kBackward[2]}};
  return ops;
}

}  // namespace genesis::cuda
