// The implementation `split_keys` of attention.
#include <fmt/format.h>

#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/attention/split/attention_split.h"

namespace genesis::cuda {
namespace {

// Up to this many keys, attention.fused is at least as fast as split keys. A token of Qwen2.5-0.5B takes 1.25 ms
// (fused) and 1.30 ms (split) at position 1000, 2.58 and 1.55 ms at position 4000; the lines between these points
// meet at 1140 (bench/gpu/implementations.py, H200).
constexpr int64_t kFewestKeysToSplit = 1152;

// The number of keys is known only on the device, at run time; a plan knows the capacity of the cache. With a larger
// cache the keys are split from the first token on, which costs little while there are few.
std::optional<std::string> decline(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  if (auto why_not = split_attention_declines(shape)) return why_not;
  if (shape.keys >= kFewestKeysToSplit || shape.window > 0 || !fused_takes(query)) return std::nullopt;
  return fmt::format("room for {} keys at most: with fewer than {} attention.fused is as fast", shape.keys,
                     kFewestKeysToSplit);
}

void launch_parts(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  const AttentionData data = forward_data(shape, c);
  aligned(data) ? run_split_attention(shape, data) : run_plain_attention(shape, data);
}

}  // namespace

KernelImpl split_keys_implementation() {
  return {.name = "split_keys",
          .run = launch_parts,
          .can_run = decline,
          .scratch_bytes = scratch_of_shape<split_attention_scratch>,
          .prepare = prepare_attention};
}

}  // namespace genesis::cuda
