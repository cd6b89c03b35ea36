// What the ways of attention that cut it into leaves share: tasks on many threads, and the heads that a task is about. Used by
// kernels/nn/attention.cpp and decode/.
#pragma once

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {

inline constexpr int64_t kFloat = sizeof(float);
inline constexpr double kInlineWork = 1 << 18;  // multiply-adds not worth a parallel loop

// Of `length` each, so many cover `total`.
inline int64_t parts_over(int64_t total, int64_t length) { return (total + length - 1) / length; }

// In reals: a product of the sizes of several tensors may be beyond 64 bits.
inline double multiply_adds(const AttentionGeometry& g, int64_t keys) {
  return static_cast<double>(g.batch * g.heads * g.queries) * static_cast<double>(keys) *
         static_cast<double>(g.size + g.v_size);
}

// Small loops stay on the calling thread.
template <class Body>
void for_each_task(int64_t count, double work, const Body& body) {
  if (work <= kInlineWork || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  parallel_pieces(count, body);
}

inline std::shared_ptr<const void> prepare_attention(const KernelQuery& query) {
  return std::make_shared<AttentionGeometry>(attention_geometry(query));
}

inline std::optional<std::string> needs_f32_at_most(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::f64) return "it computes in f32, the operands are f64";
  return std::nullopt;
}

inline AttentionHead head_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h) {
  const int64_t key_head = h / g.group();
  const QkvHeads x = operand_heads(g, c);
  return {x.q.at(b, h), x.k.at(b, key_head),         x.v.at(b, key_head), g.size,
          g.v_size,     static_cast<float>(g.scale), sight_of(g, c, b, h)};
}

// Where the log-sum-exp of every row goes; null where the node has none.
inline float* lse_of(const KernelContext& c) {
  return c.outputs.size() > 1 ? c.output(1).as<float>() : nullptr;
}

}  // namespace genesis::cpu
