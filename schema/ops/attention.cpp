#include "schema/ops/attention.h"

#include <cmath>

#include "schema/gradient.h"
#include "schema/ops/cast.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise.h"
#include "schema/ops/layout.h"
#include "schema/ops/matmul.h"
#include "schema/ops/reduce.h"
#include "schema/ops/reshape.h"

namespace genesis {
namespace {

// Sizes of one attention, whatever the layout.
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

// k and v against q.
void check_qkv(Types in, const ops::AttentionRules& rules) {
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

// The optional inputs from `first` on.
void check_rest(Types in, size_t first, const ops::AttentionRules& rules) {
  const size_t expected = first + (rules.has_mask ? 1 : 0) + (rules.has_key_length ? 1 : 0);
  if (in.size() != expected)
    fail("attention with has_mask={} and has_key_length={} takes {} inputs, {} were given", rules.has_mask,
         rules.has_key_length, expected, in.size());
  const Sizes q = sizes_of(in[0].shape, rules.layout), k = sizes_of(in[1].shape, rules.layout);
  if (rules.has_mask) {
    const TensorType& mask = in[first];
    const Shape scores{q.batch, q.heads, q.time, k.time};
    if (mask.dtype != DType::boolean && !is_float(mask.dtype))
      fail("attention: mask must be bool or floating-point, got {}", mask.to_string());
    if (!expands_to(mask.shape, scores))
      fail("attention: mask {} does not broadcast to [batch, heads, query_time, key_time] = {}",
           mask.to_string(), scores.to_string());
  }
  if (rules.has_key_length && !(in.back() == TensorType{DType::i64, {}}))
    fail("attention: key_length must be an i64 scalar, got {}", in.back().to_string());
}

// Log-sum-exp of each row of scores: one number decides a row's accuracy, so it is never low precision.
TensorType lse_type(const TensorType& q, AttentionLayout layout) {
  const Sizes s = sizes_of(q.shape, layout);
  return {q.dtype == DType::f64 ? DType::f64 : DType::f32, {s.batch, s.heads, s.time}};
}

TensorType result_type(Types in) {
  Shape shape = in[0].shape;
  shape[3] = in[2].shape[3];
  return {in[0].dtype, shape};
}

}  // namespace

namespace ops {

std::vector<TensorType> Attention::infer(Types in) const {
  check_qkv(in, *this);
  check_rest(in, 3, *this);
  if (with_lse) return {result_type(in), lse_type(in[0], layout)};
  return {result_type(in)};
}

std::vector<TensorType> AttentionGrad::infer(Types in) const {
  check_qkv(in, *this);
  check_rest(in, 6, *this);
  for (size_t i : {3, 5})
    if (!(in[i] == result_type(in)))
      fail("attention_grad: {} must be {}, got {}", i == 3 ? "y" : "dy", result_type(in).to_string(),
           in[i].to_string());
  if (!(in[4] == lse_type(in[0], layout)))
    fail("attention_grad: lse must be {}, got {}", lse_type(in[0], layout).to_string(), in[4].to_string());
  return {in[0], in[1], in[2]};
}

}  // namespace ops

namespace {

constexpr OpDef kAttention = make_op<ops::Attention>();
constexpr OpDef kAttentionGrad = make_op<ops::AttentionGrad>();
constexpr const OpDef* kOps[] = {&kAttention, &kAttentionGrad};

// x as [batch, key_heads, group * time, size]: the query heads that read one key head stand together.
Value grouped(Value x, const Dim& key_heads, AttentionLayout layout) {
  if (layout == AttentionLayout::kBTHD) x = permute(x, {0, 2, 1, 3});
  const Shape& s = x.shape();
  const Dim rows = *s[1].divide_exact(key_heads) * s[2];
  return reshape(x, {s[0], key_heads, rows, s[3]});
}

// a b^T per head, as [batch, heads, query_time, key_time].
Value scores(Value a, Value b, AttentionLayout layout) {
  const Sizes q = sizes_of(a.shape(), layout), k = sizes_of(b.shape(), layout);
  const Value product = matmul(grouped(a, k.heads, layout), grouped(b, k.heads, layout), false, true);
  return reshape(product, {q.batch, q.heads, q.time, k.time});
}

// Which keys a query sees by causality and key_length: bool, broadcasts to [query_time, key_time].
Value seen(GradientContext& g, const ops::Attention& op, const Sizes& q, const Sizes& k) {
  Graph& graph = g.graph();
  const Value keys = arange(graph, k.time);
  const Value count = op.has_key_length ? g.input(g.num_inputs() - 1) : dim_value(graph, k.time);
  if (!op.causal) return keys < count;
  const Value last = arange(graph, q.time) + (count - dim_value(graph, q.time));
  return logical_and(keys <= unsqueeze(last, 1), keys < count);
}

// The gradient of a float mask is that of the scores themselves, so they are written out here: rare, and
// slower than the rest.
Value mask_gradient(GradientContext& g, const ops::Attention& op, Value lse) {
  const Value q = g.input(0), k = g.input(1), dy = g.dy(), mask = g.input(3);
  const Sizes q_sizes = sizes_of(q.shape(), op.layout), k_sizes = sizes_of(k.shape(), op.layout);
  const double scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(q_sizes.size.value()));
  const Value row_lse = unsqueeze(lse, -1), zero = scalar_like(lse, 0);
  const Value p = exp(scores(q, k, op.layout) * scale + mask - row_lse);
  Value delta = sum(cast(dy, lse.dtype()) * g.output(), {-1}, true);
  if (op.layout == AttentionLayout::kBTHD) delta = permute(delta, {0, 2, 1, 3});
  const Value ds = p * (scores(dy, g.input(2), op.layout) - delta);
  return where(logical_or(isinf(row_lse), logical_not(seen(g, op, q_sizes, k_sizes))), zero, ds);
}

}  // namespace

namespace ops {

void Attention::grad(GradientContext& g) const {
  Attention with_statistics = *this;
  with_statistics.with_lse = true;
  const Value lse = g.extra_output(to_attributes(with_statistics), 1);
  std::vector<Value> inputs = {g.input(0), g.input(1), g.input(2), g.output(), lse, g.dy()};
  for (int i = 3; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  AttentionGrad back;
  static_cast<AttentionRules&>(back) = *this;
  if (g.wants(0) || g.wants(1) || g.wants(2)) {
    const auto dx = emit_node(kAttentionGrad, to_attributes(back), inputs);
    for (int i = 0; i < 3; ++i) g.set(i, dx[static_cast<size_t>(i)]);
  }
  if (has_mask && g.wants(3) && is_float(g.input(3).dtype())) g.set(3, mask_gradient(g, *this, lse));
}

}  // namespace ops

std::span<const OpDef* const> attention_ops() { return kOps; }

Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask, Value key_length) {
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  ops::Attention op;
  op.causal = options.causal;
  op.scale = options.scale;
  op.layout = options.layout;
  op.has_mask = static_cast<bool>(mask);
  op.has_key_length = static_cast<bool>(key_length);
  std::vector<Value> inputs = {cast(q, dtype), cast(k, dtype), cast(v, dtype)};
  if (mask) inputs.push_back(mask);
  if (key_length) inputs.push_back(cast(key_length, DType::i64));
  return emit_node(kAttention, to_attributes(op), inputs)[0];
}

}  // namespace genesis
