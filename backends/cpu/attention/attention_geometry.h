// The sizes of one attention and where its heads lie, whatever the layout. Used by kernels/attention*.cpp.
#pragma once

#include "backends/cpu/attention/attention_tasks.h"
#include "backends/kernel.h"
#include "schema/ops/nn/attention.h"

namespace genesis::cpu {

struct AttentionGeometry {
  ops::AttentionRules rules;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, size = 0, v_size = 0;
  double scale = 1;
  int first_optional = 3;  // input number of the mask, or of what comes behind it

  // Input numbers of attention_grad.
  int y() const { return rules.operands(); }
  int lse() const { return rules.operands() + 1; }
  int dy() const { return rules.operands() + 2; }
  int64_t group() const { return heads / key_heads; }
  int64_t lse_row(int64_t b, int64_t h) const { return (b * heads + h) * queries; }
};

// Of an `attention` or `attention_grad` node.
AttentionGeometry attention_geometry(const KernelQuery& query);

// Where the heads of one operand or result lie; steps in elements.
struct Heads {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t batch_step = 0, head_step = 0, row_step = 0;

  HeadRows at(int64_t b, int64_t h) const {
    const int64_t offset = b * batch_step + h * head_step;
    return {data + offset * static_cast<int64_t>(size_of(dtype)), dtype, row_step};
  }
};

struct QkvHeads {
  Heads q, k, v;
};

QkvHeads operand_heads(const AttentionGeometry& g, const KernelContext& c);
QkvHeads gradient_heads(const AttentionGeometry& g, const KernelContext& c);  // of attention_grad
// Of y, or anything of its form.
Heads result_heads(const AttentionGeometry& g, const TensorView& y);

// Reports a key_length out of range and a key_start that falls, once for a run.
void check_key_range(const AttentionGeometry& g, const KernelContext& c);
// How many keys of row `b` of the batch exist in this run: within the keys there are.
int64_t key_count(const AttentionGeometry& g, const KernelContext& c, int64_t b);
// The most of any row.
int64_t most_keys(const AttentionGeometry& g, const KernelContext& c);

MaskPlane mask_plane(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h);
int64_t mask_head_step(const AttentionGeometry& g, const KernelContext& c);

Sight sight_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h);

// The implementations of last resort, in double precision throughout: f64, and what the leaves do not take.
extern const KernelImpl kReferenceAttention, kReferenceAttentionGrad;

KernelImpl decode_attention_way();  // decode/: the row for few queries

}  // namespace genesis::cpu
