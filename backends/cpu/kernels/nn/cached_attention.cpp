// cached_attention on the CPU: one step that runs the kernels of the ops it stands for.
#include "backends/common/decomposed_cached_attention.h"
#include "backends/cpu/kernels.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const void> prepare_cached_attention(const KernelQuery& query) {
  return std::make_shared<DecomposedCachedAttention>(kernels_for, true, query);
}

int64_t cached_attention_scratch(const KernelQuery& query) {
  return DecomposedCachedAttention(kernels_for, false, query).scratch_bytes();
}

void write_length(const KernelContext& c, int64_t* to) {
  const int64_t positions = c.input(3).dim(1);
  for (int64_t i = 0; i < c.input(5).numel(); ++i) {
    const int64_t start = c.input(5).as<const int64_t>()[i];
    if (start < 0 || start >= positions) c.fault->report(start, positions);
    to[i] = std::clamp<int64_t>(start, -1, positions - 1) + 1;
  }
}

void run_cached_attention(const KernelContext& c) {
  c.prepared<DecomposedCachedAttention>().run(c, write_length);
}

constexpr OpKernel kKernels[] = {{"cached_attention",
                                  {.name = "decomposed",
                                   .run = run_cached_attention,
                                   .scratch_bytes = cached_attention_scratch,
                                   .prepare = prepare_cached_attention}}};

}  // namespace

std::span<const OpKernel> cached_attention_kernels() { return kKernels; }

}  // namespace genesis::cpu
