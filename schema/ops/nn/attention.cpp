#include "schema/ops/nn/attention.h"

#include <cmath>

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// Sizes of an operand of attention in any layout.
struct Sizes {
  Dim batch, heads, time, size;
};

Sizes sizes_of(const Shape& shape, AttentionLayout layout) {
  const bool heads_first = layout == AttentionLayout::kBHTD;
  return {shape[0], shape[heads_first ? 1 : 2], shape[heads_first ? 2 : 1], shape[3]};
}

void check_operand(const char* name, const TensorType& type, const TensorType& q, AttentionLayout layout) {
  const char* axes = layout == AttentionLayout::kBHTD ? "[batch, heads, time, head_size]"
                                                      : "[batch, time, heads, head_size]";
  if (!is_float(type.dtype) || type.shape.rank() != 4)
    fail("attention: {} must be floating-point {}, got {}", name, axes, type.to_string());
  if (type.dtype != q.dtype)
    fail("attention: {} is {} and q {}: they must have the same dtype", name, type.to_string(),
         q.to_string());
}

using QkvTypes = std::array<TensorType, 3>;

// Checks the options and the types of q, k and v against each other.
void check_qkv(const QkvTypes& in, const ops::AttentionRules& rules) {
  if (rules.window < 0) fail("attention: window must not be negative, got {}", rules.window);
  if (rules.window > 0 && !rules.causal)
    fail("attention: a window of {} keys ends at the query's own, so it needs causal=true", rules.window);
  check_operand("q", in[0], in[0], rules.layout);
  check_operand("k", in[1], in[0], rules.layout);
  check_operand("v", in[2], in[0], rules.layout);
  const Sizes q = sizes_of(in[0].shape, rules.layout), k = sizes_of(in[1].shape, rules.layout),
              v = sizes_of(in[2].shape, rules.layout);
  const auto types = [&] {
    return fmt::format("q {}, k {}, v {}", in[0].to_string(), in[1].to_string(), in[2].to_string());
  };
  if (!(q.batch == k.batch) || !(q.batch == v.batch)) fail("attention: batch sizes differ in {}", types());
  if (!(k.time == v.time) || !(k.heads == v.heads))
    fail("attention: k and v differ in heads or time in {}", types());
  if (!(q.size == k.size)) fail("attention: the head sizes of q and k differ in {}", types());
  if (!q.heads.divide_exact(k.heads))
    fail("attention: {} query heads are not a multiple of {} key heads in {}", q.heads.to_string(),
         k.heads.to_string(), types());
}

bool expands_to(const Shape& shape, const Shape& wider) {
  const int extra = wider.rank() - shape.rank();
  if (extra < 0) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (!(shape[i] == Dim(1)) && !(shape[i] == wider[i + extra])) return false;
  return true;
}

// Checks the optional inputs from `first` on.
void check_rest(Types in, const QkvTypes& qkv, size_t first, const ops::AttentionRules& rules) {
  const size_t expected = first + static_cast<size_t>(rules.optional_inputs());
  if (in.size() != expected)
    fail("attention with has_mask={}, has_key_start={} and has_key_length={} takes {} inputs, {} were given",
         rules.has_mask, rules.has_key_start, rules.has_key_length, expected, in.size());
  const Sizes q = sizes_of(qkv[0].shape, rules.layout), k = sizes_of(qkv[1].shape, rules.layout);
  if (rules.has_mask) {
    const TensorType& mask = in[first];
    const Shape scores{q.batch, q.heads, q.time, k.time};
    if (mask.dtype != DType::boolean && !is_float(mask.dtype))
      fail("attention: mask must be bool or floating-point, got {}", mask.to_string());
    if (!expands_to(mask.shape, scores))
      fail("attention: mask {} does not broadcast to [batch, heads, query_time, key_time] = {}",
           mask.to_string(), scores.to_string());
  }
  const size_t start = first + (rules.has_mask ? 1 : 0);
  if (rules.has_key_start && !(in[start] == TensorType{DType::i64, {q.batch, q.time}}))
    fail("attention: key_start must be i64[{},{}], one of each query, got {}", q.batch.to_string(),
         q.time.to_string(), in[start].to_string());
  if (rules.has_key_length && !(in.back() == TensorType{DType::i64, {}}) &&
      !(in.back() == TensorType{DType::i64, {q.batch}}))
    fail("attention: key_length must be an i64 scalar, or i64[{}] with one of each row of the batch, got {}",
         q.batch.to_string(), in.back().to_string());
}

// Returns the type of the log-sum-exp of each row of scores. It is never low precision, because this one number determines the
// accuracy of a whole row.
TensorType lse_type(const TensorType& q, AttentionLayout layout) {
  const Sizes s = sizes_of(q.shape, layout);
  return {wide_dtype(q.dtype), {s.batch, s.heads, s.time}};
}

TensorType result_type(const QkvTypes& in) {
  Shape shape = in[0].shape;
  shape[3] = in[2].shape[3];
  return {in[0].dtype, shape};
}

// Returns the types of q, k and v in one packed tensor.
QkvTypes packed_types(const TensorType& packed, const ops::AttentionRules& rules) {
  if (rules.layout != AttentionLayout::kBTHD)
    fail("attention: packed operands must be [batch, time, heads, head_size]");
  check_operand("the packed operand", packed, packed, rules.layout);
  if (!packed.shape[2].is_constant())
    fail("attention: the number of heads must be known, got {}", packed.to_string());
  const int64_t all = packed.shape[2].value();
  if (rules.packed_key_heads > all / 2)
    fail("attention: {} has no room for the keys and values of {} heads", packed.to_string(),
         rules.packed_key_heads);
  const int64_t heads = all - 2 * rules.packed_key_heads;
  TensorType q = packed, k = packed;
  q.shape[2] = Dim(heads);
  k.shape[2] = Dim(rules.packed_key_heads);
  return {q, k, k};
}

// Checks the optional inputs from `first` on, and q, k and v; returns the types of q, k and v.
QkvTypes checked_types(Types in, const ops::AttentionRules& rules, size_t first) {
  QkvTypes qkv = ops::qkv_types(rules, in);
  check_qkv(qkv, rules);
  check_rest(in, qkv, first, rules);
  return qkv;
}

// Returns the flops of matrix products of [queries, head_size] x [head_size, keys] per head: `of_keys` ones have the head size
// of q and k, as q k^T, and `of_values` ones that of v, as p v. A causal mask halves the useful work; a window reduces it to
// its share of the keys.
double flops_of_heads(Types in, const ops::AttentionRules& rules, double of_keys, double of_values) {
  const auto [q, k, v] = ops::qkv_types(rules, in);
  const int time = rules.layout == AttentionLayout::kBTHD ? 1 : 2;
  const auto keys = static_cast<double>(axis_size(k, time));
  double useful = rules.causal && axis_size(q, time) > 1 ? 0.5 : 1.0;
  if (rules.window > 0 && keys > 0) useful = std::min(useful, static_cast<double>(rules.window) / keys);
  const double values_to_keys =
      axis_size(q, 3) > 0 ? static_cast<double>(axis_size(v, 3)) / static_cast<double>(axis_size(q, 3)) : 1;
  return (of_keys + of_values * values_to_keys) * useful * product_flops(q, axis_size(k, time));
}

double terms_of_heads(Types in, const ops::AttentionRules& rules, bool of_gradients) {
  const auto [q, k, v] = ops::qkv_types(rules, in);
  const int time = rules.layout == AttentionLayout::kBTHD ? 1 : 2;
  const auto queries = static_cast<double>(axis_size(q, time)),
             keys = static_cast<double>(axis_size(k, time));
  return of_gradients ? 2 * row_length(q) + queries + keys : row_length(q) + std::max(queries, keys);
}

// Returns x as [batch, key_heads, group * time, size]: the query heads that read one key head become neighbors.
Value grouped(Value x, const Dim& key_heads, AttentionLayout layout) {
  if (layout == AttentionLayout::kBTHD) x = permute(x, {0, 2, 1, 3});
  const Shape& s = x.shape();
  const Dim rows = *s[1].divide_exact(key_heads) * s[2];
  return reshape(x, {s[0], key_heads, rows, s[3]});
}

// Returns a b^T per head as [batch, heads, query_time, key_time].
Value scores(Value a, Value b, AttentionLayout layout) {
  const Sizes q = sizes_of(a.shape(), layout), k = sizes_of(b.shape(), layout);
  const Value product = matmul(grouped(a, k.heads, layout), grouped(b, k.heads, layout), false, true);
  return reshape(product, {q.batch, q.heads, q.time, k.time});
}

// Returns the mask of keys that a query sees by causality, window and key_length.
Value seen_up_to_end(GradientContext& g, const ops::Attention& op, const Sizes& q, const Sizes& k) {
  Graph& graph = g.graph();
  const Value keys = arange(graph, k.time);
  Value count = op.has_key_length ? g.input(g.num_inputs() - 1) : dim_value(graph, k.time);
  if (count.rank() == 1) count = reshape(count, {q.batch, 1, 1, 1});
  if (!op.causal) return keys < count;
  const Value last = unsqueeze(arange(graph, q.time), 1) + (count - dim_value(graph, q.time));
  const Value before = logical_and(keys <= last, keys < count);
  return op.window == 0 ? before : logical_and(before, keys > last - op.window);
}

// Returns the mask of visible keys including key_start: bool, broadcasts to [batch, heads, query_time, key_time].
Value seen(GradientContext& g, const ops::Attention& op, const Sizes& q, const Sizes& k) {
  const Value to_end = seen_up_to_end(g, op, q, k);
  if (!op.has_key_start) return to_end;
  const Value start = reshape(g.input(op.operands() + (op.has_mask ? 1 : 0)), {q.batch, 1, q.time, 1});
  return logical_and(to_end, arange(g.graph(), k.time) >= start);
}

// Returns q, k and v as three tensors.
std::array<Value, 3> qkv_of(GradientContext& g, const ops::Attention& op) {
  if (!op.packed()) return {g.input(0), g.input(1), g.input(2)};
  const Value all = g.input(0);
  const Dim k(op.packed_key_heads), q = all.dim(2) - k * Dim(2);
  return {narrow(all, 2, Dim(0), q), narrow(all, 2, q, k), narrow(all, 2, q + k, k)};
}

// Returns the gradient of a float mask, which equals the gradient of the scores. The scores are therefore computed explicitly:
// this is rarely needed, and slower than the rest.
Value mask_gradient(GradientContext& g, const ops::Attention& op, Value lse) {
  const auto [q, k, v] = qkv_of(g, op);
  const Value dy = g.dy(), mask = g.input(op.operands());
  const Sizes q_sizes = sizes_of(q.shape(), op.layout), k_sizes = sizes_of(k.shape(), op.layout);
  const double scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(q_sizes.size.value()));
  const Value row_lse = unsqueeze(lse, -1), zero = scalar_like(lse, 0);
  const Value p = exp(scores(q, k, op.layout) * scale + mask - row_lse);
  Value delta = sum(cast(dy, lse.dtype()) * g.output(), {-1}, true);
  if (op.layout == AttentionLayout::kBTHD) delta = permute(delta, {0, 2, 1, 3});
  const Value ds = p * (scores(dy, v, op.layout) - delta);
  return where(logical_or(isinf(row_lse), logical_not(seen(g, op, q_sizes, k_sizes))), zero, ds);
}

Value emit_attention(std::vector<Value> inputs, int64_t packed_key_heads, const AttentionOptions& options,
                     Value mask, Value key_length, Value key_start) {
  ops::Attention op;
  static_cast<AttentionOptions&>(op) = options;
  op.has_mask = static_cast<bool>(mask);
  op.has_key_start = static_cast<bool>(key_start);
  op.has_key_length = static_cast<bool>(key_length);
  op.packed_key_heads = packed_key_heads;
  if (mask) inputs.push_back(mask);
  if (key_start) inputs.push_back(cast(key_start, DType::i64));
  if (key_length) inputs.push_back(cast(key_length, DType::i64));
  return emit(op, inputs);
}

}  // namespace

namespace ops {

AttentionRules attention_rules(const OpDef& op, const Attributes& attributes) {
  if (is<Attention>(op)) return from_attributes<Attention>(attributes);
  return from_attributes<AttentionGrad>(attributes);
}

std::array<TensorType, 3> qkv_types(const AttentionRules& rules, Types in) {
  if (rules.packed_key_heads < 0)
    fail("attention: packed_key_heads must not be negative, got {}", rules.packed_key_heads);
  if (rules.packed()) return packed_types(in[0], rules);
  if (in.size() < 3) fail("attention takes q, k and v, {} inputs were given", in.size());
  return {in[0], in[1], in[2]};
}

std::vector<TensorType> Attention::infer(Types in) const {
  const QkvTypes qkv = checked_types(in, *this, static_cast<size_t>(operands()));
  if (with_lse) return {result_type(qkv), lse_type(qkv[0], layout)};
  return {result_type(qkv)};
}

Cost Attention::cost(Types in, Types out) const {
  return {bytes_moved(in, out), flops_of_heads(in, *this, 1, 1), has_key_length || has_key_start};
}

double Attention::sum_length(Types in, Types) const { return terms_of_heads(in, *this, false); }

std::vector<TensorType> AttentionGrad::infer(Types in) const {
  const auto y = static_cast<size_t>(operands()), lse = y + 1, dy = y + 2;
  const QkvTypes qkv = checked_types(in, *this, y + 3);
  for (size_t i : {y, dy})
    if (!(in[i] == result_type(qkv)))
      fail("attention_grad: {} must be {}, got {}", i == y ? "y" : "dy", result_type(qkv).to_string(),
           in[i].to_string());
  if (!(in[lse] == lse_type(qkv[0], layout)))
    fail("attention_grad: lse must be {}, got {}", lse_type(qkv[0], layout).to_string(), in[lse].to_string());
  return {in.begin(), in.begin() + operands()};
}

Cost AttentionGrad::cost(Types in, Types out) const {
  return {bytes_moved(in, out), flops_of_heads(in, *this, 3, 2), has_key_length || has_key_start};
}

double AttentionGrad::sum_length(Types in, Types) const { return terms_of_heads(in, *this, true); }

void Attention::grad(GradientContext& g) const {
  Attention with_statistics = *this;
  with_statistics.with_lse = true;
  const Value lse = g.extra_output(to_attributes(with_statistics), 1);
  std::vector<Value> inputs;
  for (int i = 0; i < operands(); ++i) inputs.push_back(g.input(i));
  inputs.insert(inputs.end(), {g.output(), lse, g.dy()});
  for (int i = operands(); i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  AttentionGrad back;
  static_cast<AttentionRules&>(back) = *this;
  bool wanted = false;
  for (int i = 0; i < operands(); ++i) wanted = wanted || g.wants(i);
  if (wanted) {
    const auto dx = emit_node(back, inputs);
    for (int i = 0; i < operands(); ++i) g.set(i, dx[static_cast<size_t>(i)]);
  }
  const int mask = operands();
  if (has_mask && g.wants(mask) && is_float(g.input(mask).dtype())) g.set(mask, mask_gradient(g, *this, lse));
}

}  // namespace ops

std::span<const OpDef* const> attention_ops() { return kOpDefs<ops::Attention, ops::AttentionGrad>; }

Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask, Value key_length,
                Value key_start) {
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  return emit_attention({cast(q, dtype), cast(k, dtype), cast(v, dtype)}, 0, options, mask, key_length,
                        key_start);
}

Value packed_attention(Value qkv, int64_t key_heads, const AttentionOptions& options, Value mask,
                       Value key_length, Value key_start) {
  if (key_heads <= 0) fail("packed_attention: key_heads must be positive, got {}", key_heads);
  return emit_attention({qkv}, key_heads, options, mask, key_length, key_start);
}

}  // namespace genesis
