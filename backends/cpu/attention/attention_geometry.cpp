#include "backends/cpu/attention/attention_geometry.h"

#include <algorithm>
#include <cmath>

#include "schema/ops/nn/quantized_cache.h"

namespace genesis::cpu {
namespace {

bool heads_first(const AttentionGeometry& g) { return g.rules.layout == AttentionLayout::kBHTD; }

// Returns the stride in elements along each of [batch, heads, query, key]; 0 where the mask is broadcast.
std::array<int64_t, 4> mask_strides(const TensorView& mask) {
  std::array<int64_t, 4> strides{};
  int64_t stride = 1;
  for (int axis = mask.rank - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis + 4 - mask.rank)] = mask.dim(axis) == 1 ? 0 : stride;
    stride *= mask.dim(axis);
  }
  return strides;
}

ops::AttentionRules rules_of(const KernelQuery& query) {
  if (!is<ops::QuantizedAttention>(query.op)) return ops::attention_rules(query.op, query.attributes);
  const auto op = from_attributes<ops::QuantizedAttention>(query.attributes);
  ops::AttentionRules rules;
  rules.causal = rules.has_key_length = true;
  rules.scale = op.scale;
  rules.window = op.window;
  return rules;
}

}  // namespace

AttentionGeometry attention_geometry(const KernelQuery& query) {
  AttentionGeometry g;
  g.rules = rules_of(query);
  const auto types = ops::qkv_types(g.rules, query.inputs);
  const auto q = types[0].shape.sizes(), k = types[1].shape.sizes(), v = types[2].shape.sizes();
  const size_t heads = heads_first(g) ? 1 : 2, time = 3 - heads;
  g.batch = q[0];
  g.heads = q[heads];
  g.key_heads = k[heads];
  g.queries = q[time];
  g.keys = k[time];
  g.size = q[3];
  g.v_size = v[3];
  g.scale = g.rules.scale != 0 ? g.rules.scale : 1 / std::sqrt(static_cast<double>(g.size));
  g.first_optional = static_cast<int>(query.inputs.size()) - g.rules.optional_inputs();
  return g;
}

Heads result_heads(const AttentionGeometry& g, const TensorView& x) {
  const int64_t inner = x.dim(2) * x.dim(3);
  const bool first = heads_first(g);
  return {x.as<std::byte>(), x.dtype, x.dim(1) * inner, first ? inner : x.dim(3), first ? x.dim(3) : inner};
}

namespace {

QkvHeads qkv_heads(const AttentionGeometry& g, std::span<const TensorView> tensors) {
  const Heads q = result_heads(g, tensors[0]);
  if (!g.rules.packed()) return {q, result_heads(g, tensors[1]), result_heads(g, tensors[2])};
  Heads k = q, v = q;
  k.data = q.at(0, g.heads).data;
  v.data = q.at(0, g.heads + g.key_heads).data;
  return {q, k, v};
}

}  // namespace

QkvHeads operand_heads(const AttentionGeometry& g, const KernelContext& c) { return qkv_heads(g, c.inputs); }
QkvHeads gradient_heads(const AttentionGeometry& g, const KernelContext& c) {
  return qkv_heads(g, c.outputs);
}

namespace {

// Returns the key length of batch row `b`, from which causality counts. If each row has its own length, it may exceed the number
// of keys.
int64_t key_length(const AttentionGeometry& g, const KernelContext& c, int64_t b) {
  if (!g.rules.has_key_length) return g.keys;
  const TensorView& lengths = c.inputs.back();
  if (lengths.rank == 0) return std::clamp<int64_t>(*lengths.as<int64_t>(), 0, g.keys);
  constexpr int64_t kMaxLength = int64_t{1} << 60;  // keeps sums with a length within 64 bits
  return std::clamp<int64_t>(lengths.as<int64_t>()[b], 0, kMaxLength);
}

// Returns key_start of batch row `b`, one per query; null if the node has none.
const int64_t* key_starts(const AttentionGeometry& g, const KernelContext& c, int64_t b) {
  if (!g.rules.has_key_start) return nullptr;
  return c.input(g.first_optional + g.rules.has_mask).as<int64_t>() + b * g.queries;
}

void check_key_start(const AttentionGeometry& g, const KernelContext& c) {
  for (int64_t b = 0; b < g.batch; ++b)
    if (const int64_t* starts = key_starts(g, c, b))
      if (!std::is_sorted(starts, starts + g.queries)) c.fault->report(ops::kFallingStarts);
}

}  // namespace

void check_key_range(const AttentionGeometry& g, const KernelContext& c) {
  check_key_start(g, c);
  if (!g.rules.has_key_length) return;
  const TensorView& lengths = c.inputs.back();
  for (int64_t b = 0; b < lengths.numel(); ++b) {
    const int64_t length = lengths.as<int64_t>()[b];
    if (length < 0 || (lengths.rank == 0 && length > g.keys)) c.fault->report(length, g.keys + 1);
  }
}

int64_t key_count(const AttentionGeometry& g, const KernelContext& c, int64_t b) {
  return std::min(key_length(g, c, b), g.keys);
}

int64_t most_keys(const AttentionGeometry& g, const KernelContext& c) {
  int64_t most = 0;
  for (int64_t b = 0; b < g.batch; ++b) most = std::max(most, key_count(g, c, b));
  return most;
}

MaskPlane mask_plane(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h) {
  if (!g.rules.has_mask) return {};
  const TensorView& mask = c.input(g.first_optional);
  const auto strides = mask_strides(mask);
  const int64_t offset = (b * strides[0] + h * strides[1]) * static_cast<int64_t>(size_of(mask.dtype));
  return {mask.as<std::byte>() + offset, mask.dtype, strides[2], strides[3]};
}

int64_t mask_head_step(const AttentionGeometry& g, const KernelContext& c) {
  return g.rules.has_mask ? mask_strides(c.input(g.first_optional))[1] : 0;
}

VisibleKeys visible_keys_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h) {
  return {key_count(g, c, b), g.rules.causal,         key_length(g, c, b) - g.queries,
          g.rules.window,     mask_plane(g, c, b, h), key_starts(g, c, b)};
}

}  // namespace genesis::cpu
