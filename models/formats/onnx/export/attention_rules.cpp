// Attention, rotation and the gated activation, as formulas: ONNX has operators for the first two from version 23 on only.
#include <cmath>
#include <limits>

#include "models/formats/onnx/export/rules.h"
#include "schema/core/error.h"
#include "schema/ops/nn/attention.h"

namespace genesis::models::onnx {
namespace {

// Attention while it is written: q, k and v as [batch, heads, time, size], in the dtype of the computation.
struct Heads {
  Out q, k, v;
  Dim batch, queries, keys;
  int64_t heads = 0, key_heads = 0, size = 0;
};

Out with_time_behind_heads(Translation& t, const ops::Attention& op, const Out& x) {
  return op.layout == AttentionLayout::kBTHD ? t.e.transpose(x, {0, 2, 1, 3}) : x;
}

Heads heads_of(Translation& t, const ops::Attention& op) {
  Heads heads;
  std::vector<TensorType> types;
  for (size_t i = 0; i < t.count(); ++i) types.push_back(t.type(i));
  const auto [q, k, v] = qkv_types(op, types);
  const bool is_bthd = op.layout == AttentionLayout::kBTHD;
  const int head_axis = is_bthd ? 2 : 1, time_axis = is_bthd ? 1 : 2;
  heads.batch = q.shape[0], heads.queries = q.shape[time_axis], heads.keys = k.shape[time_axis];
  heads.heads = q.shape[head_axis].value(), heads.key_heads = k.shape[head_axis].value();
  heads.size = q.shape[3].value();
  std::vector<Out> parts = {t.in(0)};
  if (op.packed())
    parts = t.e.add_several("Split", {t.in(0), t.e.integers({heads.heads, heads.key_heads, heads.key_heads})},
                            onnx_attribute("axis", int64_t{head_axis}), {q.dtype, q.dtype, q.dtype});
  else
    parts.push_back(t.in(1)), parts.push_back(t.in(2));
  const DType dtype = t.wide_dtype(0);
  for (Out& part : parts) part = with_time_behind_heads(t, op, t.e.cast(part, dtype));
  heads.q = parts[0], heads.k = parts[1], heads.v = parts[2];
  return heads;
}

// Repeats each head of keys or values for the queries' heads that read it.
Out repeated(Translation& t, const Heads& heads, const Out& x, const Dim& size) {
  const int64_t times = heads.heads / heads.key_heads;
  if (times == 1) return x;
  const Out apart = t.e.unsqueeze(x, {2});
  const Out all = t.e.add("Expand", {apart, t.e.integers({1, 1, times, 1, 1})});
  return t.e.reshape(all, {heads.batch, heads.key_heads, times, heads.keys, size},
                     {heads.batch, heads.heads, heads.keys, size});
}

Out both(Translation& t, const Out& a, const Out& b) { return a.name.empty() ? b : t.e.add("And", {a, b}); }
Out compared(Translation& t, const char* op, const Out& a, const Out& b) {
  return t.e.add(op, {a, b}, "", DType::boolean);
}

// Returns which keys a query sees, as a bool that broadcasts with [batch, heads, queries, keys]; no name: all.
Out visible_keys(Translation& t, const ops::Attention& op, const Heads& heads) {
  size_t at = static_cast<size_t>(op.operands());
  Out visible{"", DType::boolean};
  if (op.has_mask) {
    if (t.type(at).dtype == DType::boolean)
      visible = t.in(at);
    else
      visible = compared(t, "Greater", t.e.cast(t.in(at), heads.q.dtype),
                         t.e.number(-std::numeric_limits<double>::infinity(), heads.q.dtype));
    ++at;
  }
  const Out key = t.e.counted(heads.keys);  // [keys]
  if (op.has_key_start)
    visible = both(t, visible, compared(t, "GreaterOrEqual", key, t.e.unsqueeze(t.in(at++), {1, 3})));
  Out length = t.e.dim(heads.keys);
  if (op.has_key_length) {
    length = t.e.cast(t.in(at), DType::i64);
    if (t.rank(at) == 1) length = t.e.unsqueeze(length, {1, 2, 3});
    visible = both(t, visible, compared(t, "Less", key, length));
  }
  if (!op.causal) return visible;
  const Out query = t.e.unsqueeze(t.e.counted(heads.queries), {1});  // [queries, 1]
  const Out last = t.e.add("Add", {query, t.e.add("Sub", {length, t.e.dim(heads.queries)})});
  visible = both(t, visible, compared(t, "LessOrEqual", key, last));
  if (op.window == 0) return visible;
  const Out first = t.e.add("Sub", {last, t.e.integers({op.window})});
  return both(t, visible, compared(t, "Greater", key, first));
}

Out attention_rule(Translation& t) {
  const auto op = t.as<ops::Attention>();
  if (op.with_lse) fail("it gives the statistics of its rows, which only gradients need");
  const Heads heads = heads_of(t, op);
  const DType dtype = heads.q.dtype;
  const double scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(heads.size));
  const Dim value_size = t.result().shape[3];
  const Out keys = t.e.transpose(repeated(t, heads, heads.k, heads.size), {0, 1, 3, 2});
  Out scores = t.e.add("MatMul", {scaled_by(t.e, heads.q, scale), keys});
  if (op.has_mask && t.type(static_cast<size_t>(op.operands())).dtype != DType::boolean)
    scores = t.e.add("Add", {scores, t.e.cast(t.in(static_cast<size_t>(op.operands())), dtype)});
  const Out visible = visible_keys(t, op, heads);
  if (!visible.name.empty())
    scores = t.e.add("Where", {visible, scores, t.e.number(-1e30, dtype)}, "", dtype);
  Out shares = t.e.add("Softmax", {scores}, onnx_attribute("axis", int64_t{-1}));
  // A query may see no key; its result is 0.
  if (op.has_mask || op.has_key_start || op.has_key_length || !(heads.queries == heads.keys))
    if (!visible.name.empty()) shares = t.e.add("Where", {visible, shares, t.e.number(0, dtype)}, "", dtype);
  const Out y = t.e.add("MatMul", {shares, repeated(t, heads, heads.v, value_size)});
  return t.e.cast(with_time_behind_heads(t, op, y), t.result().dtype);
}

// --- rotation

// The angles [time or batch * time, rotary_size / 2] of positions, with an axis for the heads.
Out angles_of(Translation& t, const ops::Rope& op, int64_t rotary) {
  const Out positions = t.e.unsqueeze(t.e.cast(t.in(1), DType::f32), {-1});
  if (t.count() > 2) {
    const Out frequencies = t.e.cast(t.in(2), DType::f32);
    const Out own = t.rank(2) == 2 ? t.e.unsqueeze(frequencies, {1}) : frequencies;
    return t.e.unsqueeze(t.e.add("Mul", {positions, own}), {-2});
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < rotary / 2; ++i)
    frequencies.push_back(
        static_cast<float>(std::pow(op.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary))));
  const Out own = t.e.constant("frequencies", Tensor::of(frequencies));
  return t.e.unsqueeze(t.e.add("Mul", {positions, own}), {-2});
}

// Rotates all of x [..., heads, rotary].
Out rotated(Translation& t, const ops::Rope& op, const Out& x, int64_t rotary) {
  const Out angles = angles_of(t, op, rotary);
  const Out cos = t.e.add("Cos", {angles});
  Out sin = t.e.add("Sin", {angles});
  if (op.inverse) sin = t.e.add("Neg", {sin});
  const bool is_half = op.kind == RopeKind::kHalf;
  const Out end = t.e.integers({std::numeric_limits<int64_t>::max()});
  const Out middle = t.e.integers({rotary / 2});
  const int64_t last = t.rank() - 1;
  const Out a =
      is_half ? t.e.slice(x, last, t.e.integers({0}), middle) : t.e.slice(x, last, t.e.integers({0}), end, 2);
  const Out b = is_half ? t.e.slice(x, last, middle, end) : t.e.slice(x, last, t.e.integers({1}), end, 2);
  const auto times = [&](const Out& left, const Out& right) { return t.e.add("Mul", {left, right}); };
  const Out first = t.e.add("Sub", {times(a, cos), times(b, sin)});
  const Out second = t.e.add("Add", {times(b, cos), times(a, sin)});
  if (is_half) return t.e.add("Concat", {first, second}, onnx_attribute("axis", int64_t{-1}));
  const Out pairs = t.e.add("Concat", {t.e.unsqueeze(first, {-1}), t.e.unsqueeze(second, {-1})},
                            onnx_attribute("axis", int64_t{-1}));
  return t.e.add("Reshape", {pairs, t.e.integers({0, 0, 0, rotary})});
}

Out rope_rule(Translation& t) {
  const auto op = t.as<ops::Rope>();
  const Shape& shape = t.shape();
  const int64_t heads = shape[2].value(), size = shape[3].value();
  const int64_t rotary = op.rotary_size > 0 ? op.rotary_size : size, turned = op.heads > 0 ? op.heads : heads;
  Out x = t.wide();
  Out own = x, other_heads, rest;
  if (turned < heads) {
    const auto parts = t.e.add_several("Split", {x, t.e.integers({turned, heads - turned})},
                                       onnx_attribute("axis", int64_t{2}), {x.dtype, x.dtype});
    own = parts[0], other_heads = parts[1];
  }
  if (rotary < size) {
    const auto parts = t.e.add_several("Split", {own, t.e.integers({rotary, size - rotary})},
                                       onnx_attribute("axis", int64_t{3}), {x.dtype, x.dtype});
    own = parts[0], rest = parts[1];
  }
  Out y = rotated(t, op, t.e.cast(own, DType::f32), rotary);
  y = t.e.cast(y, x.dtype);
  if (!rest.name.empty()) y = t.e.add("Concat", {y, rest}, onnx_attribute("axis", int64_t{3}));
  if (!other_heads.name.empty()) y = t.e.add("Concat", {y, other_heads}, onnx_attribute("axis", int64_t{2}));
  return t.e.cast(y, t.result().dtype);
}

Out gated(Translation& t) {
  if (t.count() == 2) return t.e.add("Mul", {silu_of(t.e, t.in(0)), t.in(1)});
  const DType dtype = t.in().dtype;
  const auto halves = t.e.add_several(
      "Split", {t.in()}, onnx_attribute("axis", int64_t{-1}) + onnx_attribute("num_outputs", int64_t{2}),
      {dtype, dtype});
  return t.e.add("Mul", {silu_of(t.e, halves[0]), halves[1]});
}

}  // namespace

const OpRules& attention_rules_of_export() {
  static const OpRules kRules = {
      {"attention", single<attention_rule>},
      {"rope", single<rope_rule>},
      {"swiglu", single<gated>},
  };
  return kRules;
}

}  // namespace genesis::models::onnx
