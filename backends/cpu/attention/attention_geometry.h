// The sizes of one attention node and the memory layout of its heads, for both layouts (heads or tokens first).
#pragma once

#include "backends/cpu/attention/attention_tasks.h"
#include "backends/kernel.h"
#include "schema/ops/nn/attention.h"

namespace genesis::cpu {

struct AttentionGeometry {
  ops::AttentionRules rules;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, size = 0, v_size = 0;
  double scale = 1;
  // Index of the first optional input: the mask, or what follows it if there is no mask.
  int first_optional = 3;

  // Input indices of attention_grad.
  int y() const { return rules.operands(); }
  int lse() const { return rules.operands() + 1; }
  int dy() const { return rules.operands() + 2; }
  int64_t group() const { return heads / key_heads; }
  int64_t lse_row(int64_t b, int64_t h) const { return (b * heads + h) * queries; }
};

// Returns the geometry of an `attention`, `attention_grad` or `quantized_attention` node, whose keys and values are quants.
AttentionGeometry attention_geometry(const KernelQuery& query);

// The layout of the heads of one operand or result; steps in elements.
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
QkvHeads gradient_heads(const AttentionGeometry& g, const KernelContext& c);  // for attention_grad
// Returns the heads of y, or of another tensor of the same shape.
Heads result_heads(const AttentionGeometry& g, const TensorView& y);

// Reports a key_length out of range, and a key_start that decreases from one query to the next. Called once per run.
void check_key_range(const AttentionGeometry& g, const KernelContext& c);
// Returns the number of keys of batch row `b` that are valid in this run, at most the number of keys in the tensor.
int64_t key_count(const AttentionGeometry& g, const KernelContext& c, int64_t b);
// Returns the largest key_count() of all batch rows.
int64_t most_keys(const AttentionGeometry& g, const KernelContext& c);

MaskPlane mask_plane(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h);
int64_t mask_head_step(const AttentionGeometry& g, const KernelContext& c);

VisibleKeys visible_keys_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h);

// The general implementations, in double precision throughout: for f64, and for everything the other implementations decline.
extern const KernelImpl kReferenceAttention, kReferenceAttentionGrad;

KernelImpl decode_attention_implementation();  // in decode/: the implementation for few queries

}  // namespace genesis::cpu
