// cached_attention decomposed into the kernels of the ops that it stands for, run one after the other. Works on any backend, for
// every size and dtype, and computes the same as those ops. Scratch memory holds the rotated q and k, the number of keys, then
// the scratch of the kernels.
#pragma once

#include <algorithm>

#include "backends/inner_kernel.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/tensor/dynamic_slice.h"

namespace genesis {

// Inputs of the node: 0 q, 1 k, 2 v (of the new token), 3 cached keys, 4 cached values, 5 start (number of cached tokens, for all
// rows or for each), and optionally 6 frequencies of the rotation. Outputs: 0 y, 1 new cached keys, 2 new cached values.
class DecomposedCachedAttention {
 public:
  // `kernels` returns the implementations of an op. `ready`: see InnerKernel.
  DecomposedCachedAttention(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                            const KernelQuery& query) {
    const auto op = from_attributes<ops::CachedAttention>(query.attributes);
    const TensorType &q = query.inputs[0], &k = query.inputs[1], &start = query.inputs[5];
    rows_ = start.numel();
    ops::DynamicUpdateSlice update;
    update.axis = 1;
    ops::Attention attention;
    attention.causal = attention.has_key_length = true;
    attention.scale = op.scale;
    attention.window = op.window;
    for (size_t i = 0; i < 2; ++i)
      append_[i] = InnerKernel::of(kernels, ready, query.disabled, update,
                                   {query.inputs[3 + i], query.inputs[1 + i], start}, {query.inputs[3 + i]});
    attend_ = InnerKernel::of(kernels, ready, query.disabled, attention,
                              {q, query.inputs[3], query.inputs[4], start}, {query.outputs[0]});
    rotates_ = op.rotates;
    if (rotates_) {
      // Positions of one token: one for all rows, or one per row.
      std::vector<TensorType> rotated = {q, {DType::i64, {1}}};
      if (start.shape.rank() == 1) rotated[1].shape = {start.shape[0], 1};
      if (query.inputs.size() > 6) rotated.push_back(query.inputs[6]);
      rotate_q_ = InnerKernel::of(kernels, ready, query.disabled, op.rope(), rotated, {q});
      rotated[0] = k;
      rotate_k_ = InnerKernel::of(kernels, ready, query.disabled, op.rope(), rotated, {k});
      // The rotated q is at the start of the scratch memory.
      k_at_ = aligned(q.bytes());
      length_at_ = aligned(CheckedSize(k_at_) + k.bytes());
    }
  }

  int64_t scratch_bytes() const {
    const CheckedSize kernels =
        std::max({append_[0].scratch_bytes(), append_[1].scratch_bytes(), attend_.scratch_bytes(),
                  rotate_q_.scratch_bytes(), rotate_k_.scratch_bytes()});
    return (kernels + kernels_at()).value();
  }

  // write_length(c, to) must write start + 1 for every start to `to`, and report a start outside the caches.
  template <class WriteLength>
  void run(const KernelContext& c, const WriteLength& write_length) const {
    const void *q = c.input(0).data, *k = c.input(1).data, *start = c.input(5).data;
    std::byte* scratch = c.scratch + kernels_at();
    auto* length = reinterpret_cast<int64_t*>(c.scratch + length_at_);
    write_length(c, length);
    if (rotates_) {
      rotate(rotate_q_, c, q, c.scratch, scratch);
      rotate(rotate_k_, c, k, c.scratch + k_at_, scratch);
      q = c.scratch;
      k = c.scratch + k_at_;
    }
    append_[0].run(c, {c.input(3).data, k, start}, c.output(1).data, scratch);
    append_[1].run(c, {c.input(4).data, c.input(2).data, start}, c.output(2).data, scratch);
    attend_.run(c, {q, c.output(1).data, c.output(2).data, length}, c.output(0).data, scratch);
  }

 private:
  static void rotate(const InnerKernel& rope, const KernelContext& c, const void* x, void* y,
                     std::byte* scratch) {
    const bool has_frequencies = c.inputs.size() > 6;
    const void* inputs[] = {x, c.input(5).data, has_frequencies ? c.input(6).data : nullptr};
    rope.run(c, std::span<const void* const>(inputs, has_frequencies ? 3 : 2), {&y, 1}, scratch);
  }
  // 256 bytes are the alignment of cudaMalloc(), enough for the kernels of every backend.
  static int64_t aligned(CheckedSize bytes) { return bytes.rounded_up(256).value(); }
  // Returns the byte offset of the kernels' own scratch memory.
  int64_t kernels_at() const {
    return aligned(CheckedSize(length_at_) + CheckedSize(rows_) * sizeof(int64_t));
  }

  InnerKernel rotate_q_, rotate_k_, append_[2], attend_;  // append_: for keys, for values
  bool rotates_ = false;
  int64_t k_at_ = 0, length_at_ = 0;  // byte offsets in scratch memory
  int64_t rows_ = 1;                  // number of starts
};

}  // namespace genesis
