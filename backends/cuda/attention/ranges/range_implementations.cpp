// The implementations `ranges` of attention and attention_grad.
#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/attention/ranges/attention_ranges.h"
#include "backends/cuda/device/packs.h"

namespace genesis::cuda {
namespace {

std::optional<std::string> decline(const KernelQuery& query) {
  const AttentionShape s = attention_shape(query);
  if (auto why_not = range_kernels_decline(s)) return why_not;
  return why_no_ranges(s, query);
}

void launch_ranges(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_ranges_or_tiles(shape, data_of(shape, c), c);
}

}  // namespace

std::optional<std::string> why_no_ranges(const AttentionShape& s, const KernelQuery& query) {
  if (s.has_key_start || (s.gradient && s.has_key_length)) return std::nullopt;
  if (s.window == 0) return "all queries see keys from the first on";
  if (fused_takes(query)) return "cuDNN is faster for windows";
  return std::nullopt;
}

void run_ranges_or_tiles(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  if (range_kernels_decline(s) || !(s.gradient ? aligned_to_packs(c) : aligned(d))) return run_tiles(s, d);
  s.gradient ? run_range_gradient(s, d, c) : run_range_attention(s, d, c);
}

KernelImpl range_attention_implementation() {
  return {.name = "ranges", .run = launch_ranges, .can_run = decline, .prepare = prepare_attention};
}

KernelImpl range_gradient_implementation() {
  return {.name = "ranges",
          .run = launch_ranges,
          .can_run = decline,
          .scratch_bytes = scratch_of_shape<plain_gradient_scratch>,
          .prepare = prepare_attention};
}

}  // namespace genesis::cuda
