// The sizes of one attention and where its heads lie, whatever the layout. Used by kernels/attention*.cpp.
#pragma once

#include "backends/cpu/attention_tasks.h"
#include "backends/kernel.h"
#include "schema/ops/attention.h"

namespace genesis::cpu {

struct AttentionGeometry {
  ops::AttentionRules rules;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, size = 0, v_size = 0;
  double scale = 1;
  int first_optional = 3;  // input number of the mask, or of key_length without one

  int64_t group() const { return heads / key_heads; }
  int64_t lse_row(int64_t b, int64_t h) const { return (b * heads + h) * queries; }
};

// Of an `attention` or `attention_grad` node.
AttentionGeometry attention_geometry(const KernelQuery& query);

// Head `h` of batch entry `b` of q, k, v or anything of their form.
HeadRows head_rows(const AttentionGeometry& g, const TensorView& x, int64_t b, int64_t h);
// Elements from one head to the next.
int64_t head_step(const AttentionGeometry& g, const TensorView& x);

// How many keys exist in this run; a key_length out of range is reported and clamped.
int64_t key_count(const AttentionGeometry& g, const KernelContext& c);

MaskPlane mask_plane(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h);
int64_t mask_head_step(const AttentionGeometry& g, const KernelContext& c);

Sight sight_of(const AttentionGeometry& g, const KernelContext& c, int64_t keys, int64_t b, int64_t h);

// The implementations of last resort, in double precision throughout: f64, and what the leaves do not take.
extern const KernelImpl kReferenceAttention, kReferenceAttentionGrad;

}  // namespace genesis::cpu
