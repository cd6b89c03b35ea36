// The specialized implementations of attention and attention_grad. Each is in its own folder, which this file does
// not include; kernels/nn/attention.cpp lists them. Also their shared code: they are prepared as an AttentionShape,
// and calls that they cannot run use the tiles of attention_plain.cu.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {

KernelImpl split_keys_implementation();       // split/
KernelImpl range_attention_implementation();  // ranges/
KernelImpl range_gradient_implementation();   // ranges/
KernelImpl fused_attention_implementation();  // cudnn/
KernelImpl fused_gradient_implementation();   // cudnn/

// Returns whether the row `fused` of the node's op is switched on and would take the node.
bool fused_takes(const KernelQuery& query);

// Returns why a kernel for ranges of keys, our own, is not the first choice for a node; empty if it is.
std::optional<std::string> why_no_ranges(const AttentionShape& shape, const KernelQuery& query);

inline std::shared_ptr<const void> prepare_attention(const KernelQuery& query) {
  return std::make_shared<AttentionShape>(attention_shape(query));
}

// KernelImpl::can_run and scratch_bytes, from functions of an AttentionShape.
template <std::optional<std::string> (*kDeclines)(const AttentionShape&)>
std::optional<std::string> can_run_shape(const KernelQuery& query) {
  return kDeclines(attention_shape(query));
}
template <int64_t (*kScratch)(const AttentionShape&)>
int64_t scratch_of_shape(const KernelQuery& query) {
  return kScratch(attention_shape(query));
}

inline AttentionData data_of(const AttentionShape& shape, const KernelContext& c) {
  return shape.gradient ? backward_data(shape, c) : forward_data(shape, c);
}

inline void run_tiles(const AttentionShape& shape, const AttentionData& data) {
  shape.gradient ? run_plain_gradient(shape, data) : run_plain_attention(shape, data);
}

// Runs a node by the kernels for ranges of keys if they take its shape, and else by the tiles. The scratch memory is that of
// the tiles.
void run_ranges_or_tiles(const AttentionShape& shape, const AttentionData& data,
                         const KernelContext& context);

// Returns whether q, k and v start at multiples of 16 bytes, which packs need; a view may start anywhere.
inline bool aligned(const AttentionData& d) {
  const auto bits =
      reinterpret_cast<uintptr_t>(d.q) | reinterpret_cast<uintptr_t>(d.k) | reinterpret_cast<uintptr_t>(d.v);
  return bits % 16 == 0;
}

}  // namespace genesis::cuda
