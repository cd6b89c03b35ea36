// quantized_attention decomposed into a conversion of keys and values to numbers in scratch memory and the kernels of attention. Works on
// any backend, for every size; all layers share the scratch memory, so that the cache itself stays in 8 bits.
#pragma once

#include "backends/inner_kernel.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/quantized_cache.h"

namespace genesis {

class DecomposedQuantizedAttention {
 public:
  // `kernels` returns the implementations of an op. `ready`: see InnerKernel.
  DecomposedQuantizedAttention(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                               const KernelQuery& query) {
    const auto op = from_attributes<ops::QuantizedAttention>(query.attributes);
    ops::Attention attention;
    attention.causal = attention.has_key_length = true;
    attention.scale = op.scale;
    attention.window = op.window;
    const TensorType &q = query.inputs[0], k{q.dtype, query.inputs[1].shape},
                     v{q.dtype, query.inputs[2].shape};
    attend_ = InnerKernel::of(kernels, ready, query.disabled, attention, {q, k, v, query.inputs[5]},
                              {query.outputs[0]});
    v_at_ = aligned(k.bytes());
    inner_at_ = aligned(CheckedSize(v_at_) + v.bytes());
  }

  int64_t scratch_bytes() const { return (CheckedSize(inner_at_) + attend_.scratch_bytes()).value(); }

  // convert(c, operand, to) must write the keys (operand 1) or values (operand 2) as numbers of q's dtype, and zeros behind each
  // text's key_length: kernels of attention multiply them by weights of zero.
  template <class Convert>
  void run(const KernelContext& c, const Convert& convert) const {
    convert(c, 1, c.scratch);
    convert(c, 2, c.scratch + v_at_);
    attend_.run(c, {c.input(0).data, c.scratch, c.scratch + v_at_, c.input(5).data}, c.output().data,
                c.scratch + inner_at_);
  }

 private:
  // 256 bytes are the alignment of cudaMalloc(), enough for the kernels of every backend.
  static int64_t aligned(CheckedSize bytes) { return bytes.rounded_up(256).value(); }

  InnerKernel attend_;
  int64_t v_at_ = 0, inner_at_ = 0;  // byte offsets in scratch memory
};

}  // namespace genesis
