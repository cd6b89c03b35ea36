// Helpers for the attention implementations that split the work into leaf tasks: parallel loops over tasks, and the heads of a
// task.
#pragma once

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {

inline constexpr int64_t kFloat = sizeof(float);
inline constexpr double kInlineWork = 1 << 18;  // multiply-adds; less work is not worth a parallel loop

// Returns the number of chunks of `length` that cover `total`.
inline int64_t parts_over(int64_t total, int64_t length) { return (total + length - 1) / length; }

// Returns the number of multiply-adds as a double: a product of the sizes of several tensors may exceed 64 bits.
inline double multiply_adds(const AttentionGeometry& g, int64_t keys) {
  return static_cast<double>(g.batch * g.heads * g.queries) * static_cast<double>(keys) *
         static_cast<double>(g.size + g.v_size);
}

// Calls body(i) for each i in [0, count); loops with little work stay on the calling thread.
template <class Body>
void for_each_task(int64_t count, double work, const Body& body) {
  if (work <= kInlineWork || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  parallel_chunks(count, body);
}

inline std::shared_ptr<const void> prepare_attention(const KernelQuery& query) {
  return std::make_shared<AttentionGeometry>(attention_geometry(query));
}

inline std::optional<std::string> needs_f32_at_most(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::f64) return "it computes in f32, the operands are f64";
  return std::nullopt;
}

// Returns the rows of a key head with their scales, which are operand `scales`, if keys and values are quants.
inline HeadRows with_scales(const AttentionGeometry& g, const KernelContext& c, HeadRows rows, int scales,
                            int64_t b, int64_t key_head) {
  if (rows.dtype != DType::i8) return rows;
  rows.scales = c.input(scales).as<const float>() + b * g.keys * g.key_heads + key_head;
  rows.scale_stride = g.key_heads;
  return rows;
}

inline AttentionHead head_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h) {
  const int64_t key_head = h / g.group();
  const QkvHeads x = operand_heads(g, c);
  return {x.q.at(b, h),
          with_scales(g, c, x.k.at(b, key_head), 3, b, key_head),
          with_scales(g, c, x.v.at(b, key_head), 4, b, key_head),
          g.size,
          g.v_size,
          static_cast<float>(g.scale),
          visible_keys_of(g, c, b, h)};
}

// Returns the output for the log-sum-exp of every row; null if the node has no such output.
inline float* lse_of(const KernelContext& c) {
  return c.outputs.size() > 1 ? c.output(1).as<float>() : nullptr;
}

}  // namespace genesis::cpu
