// The row `split_keys` of attention.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/attention/attention_ways.h"
#include "backends/cuda/attention/split/attention_split.h"
#include "backends/cuda/kernels.h"

namespace genesis::cuda {
namespace {

// Up to so many keys attention.fused is as fast as split keys or faster: a token of Qwen2.5-0.5B takes 1.25 and 1.30 ms at
// position 1000, 2.58 and 1.55 ms at 4000, and between the two lines meet at 1140 (bench/gpu/ways.py, H200).
constexpr int64_t kFewestKeysToSplit = 1152;

// Whether there is an attention.fused that would take the node.
bool fused_takes(const KernelQuery& query) {
  const std::span<const KernelImpl> rows = kernels_for("attention");
  const auto fused = std::ranges::find(rows, "fused", &KernelImpl::name);
  return fused != rows.end() && is_allowed(query.disabled, "attention", fused->name) &&
         !fused->can_run(query);
}

// How many keys there are, only the device knows while it runs; a plan knows how many the cache has room for. A cache with room
// for more has its keys split from the first token on, which costs little while they are few.
std::optional<std::string> decline(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  if (auto why_not = split_attention_declines(shape)) return why_not;
  if (shape.keys >= kFewestKeysToSplit || !fused_takes(query)) return std::nullopt;
  return fmt::format("room for {} keys at most: with fewer than {} attention.fused is as fast", shape.keys,
                     kFewestKeysToSplit);
}

void run(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = forward_data(shape, c);
  aligned(data) ? run_split_attention(shape, data) : run_plain_attention(shape, data);
}

}  // namespace

KernelImpl split_keys_way() {
  return {.name = "split_keys",
          .run = run,
          .can_run = decline,
          .scratch_bytes = scratch_of_shape<split_attention_scratch>,
          .prepare = prepare_attention};
}

}  // namespace genesis::cuda
