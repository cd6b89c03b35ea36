// Attention in ONNX's forms, and rotary embedding, composed of products and softmax.
#include <cmath>
#include <limits>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [batch, time, heads * size] as [batch, heads, time, size].
Value heads_of(Value x, int64_t heads) {
  if (x.rank() == 4) return x;
  const auto size = x.rank() == 3 && heads > 0 ? x.dim(2).divide_exact(heads) : std::nullopt;
  if (!size) fail("{} is not divided into {} heads", x.type().to_string(), heads);
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, *size}), {0, 2, 1, 3});
}
Value joined_heads(Value x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}
// Repeats each head of k and v for the query heads that share it.
Value for_heads(Value x, const Dim& heads) {
  if (x.dim(1) == heads) return x;
  const auto times = heads.divide_exact(x.dim(1));
  if (!times) fail("{} query heads share {} key heads", heads.to_string(), x.dim(1).to_string());
  return repeat_interleave(x, times->value(), 1);
}
Value or_masked(Value visible, DType dtype) {
  const Value zero = full(*visible.graph, {}, 0.0, dtype);
  return where(visible, zero, Scalar(-kInfinity));
}

// Returns the sum of what causality, a window, lengths and a mask add to the scores [batch, heads, queries, keys]; or nothing.
Value bias_of(Call& call, Value q, const Dim& keys, const Dim& past) {
  const DType dtype = q.dtype();
  const Dim queries = q.dim(2);
  const bool is_causal = call.attribute("is_causal", 0) != 0;
  const int64_t left = call.attribute("left_window_size", -1),
                right = call.attribute("right_window_size", -1);
  Value bias;
  const auto add = [&](Value part) { bias = bias ? bias + part : part; };
  if (call.has(3)) {
    Value mask = call.tensor(3);
    if (mask.dim(-1) != keys) {
      std::vector<int64_t> none(static_cast<size_t>(mask.rank())), after = none;
      after.back() = (keys - mask.dim(-1)).value();
      mask = mask.dtype() == DType::boolean ? cast(pad(cast(mask, DType::i32), none, after), DType::boolean)
                                            : pad(mask, none, after, -kInfinity);
    }
    add(mask.dtype() == DType::boolean ? or_masked(mask, dtype) : cast(mask, dtype));
  }
  const Value columns = reshape(arange(call.graph(), keys), {1, keys});
  Value rows = reshape(arange(call.graph(), queries), {queries, 1}), lengths;
  if (call.has(6)) {
    lengths = reshape(cast(call.tensor(6), DType::i64), {q.dim(0), 1, 1, 1});
    rows = rows + (lengths - dim_value(call.graph(), queries));
  } else if (past != Dim(0)) {
    rows = rows + dim_value(call.graph(), past);
  }
  if (is_causal) add(or_masked(columns <= rows, dtype));
  if (left >= 0) add(or_masked(rows - columns <= left, dtype));
  if (right >= 0) add(or_masked(columns - rows <= right, dtype));
  if (lengths) add(or_masked(columns < lengths, dtype));
  return bias;
}

DType wide_for_softmax(Call& call, DType dtype) {
  const auto stated = onnx_storage(static_cast<OnnxElement>(call.attribute("softmax_precision", 0)));
  return stated ? *stated : dtype;
}

Results attended(Call& call) {
  const bool is_flat = call.tensor(0).rank() == 3;
  const Value q = heads_of(call.tensor(0), call.attribute("q_num_heads", 0));
  Value k = heads_of(call.tensor(1), call.attribute("kv_num_heads", 0)),
        v = heads_of(call.tensor(2), call.attribute("kv_num_heads", 0));
  Dim past = 0;
  if (call.has(4)) past = call.tensor(4).dim(2), k = concat({call.tensor(4), k}, 2);
  if (call.has(5)) v = concat({call.tensor(5), v}, 2);
  const Value present_k = k, present_v = v;
  k = for_heads(k, q.dim(1)), v = for_heads(v, q.dim(1));
  const double scale = call.real("scale", 1 / std::sqrt(static_cast<double>(q.dim(3).value())));
  const double root = std::sqrt(scale), softcap = call.real("softcap", 0);
  const int64_t shown = call.attribute("qk_matmul_output_mode", 0);
  const Value raw = matmul(q * root, transpose(k) * root);
  const Value capped = softcap > 0 ? tanh(raw / softcap) * softcap : raw;
  const Value bias = bias_of(call, q, k.dim(2), past);
  const Value scores = bias ? capped + bias : capped;
  Value weights = softmax(cast(scores, wide_for_softmax(call, scores.dtype())), -1);
  // A query that sees nothing gets zeros.
  if (bias) weights = where(max(bias, -1, true) == -kInfinity, Scalar(0.0), weights);
  weights = cast(weights, q.dtype());
  const Value y = matmul(weights, v);
  const Value shown_scores = shown == 0 ? raw : shown == 1 ? capped : shown == 2 ? scores : weights;
  return {item_of(is_flat ? joined_heads(y) : y), item_of(present_k), item_of(present_v),
          item_of(shown_scores)};
}

// Attention whose scores and weights go through graphs that are attributes.
Results flexible(Call& call) {
  const Value q = call.tensor(0), k = for_heads(call.tensor(1), q.dim(1)),
              v = for_heads(call.tensor(2), q.dim(1));
  const double scale = call.real("scale", 1 / std::sqrt(static_cast<double>(q.dim(3).value())));
  const double root = std::sqrt(scale);
  DType dtype = wide_for_softmax(call, q.dtype());
  if (!call.has_attribute("softmax_precision") && is_low_precision(dtype)) dtype = DType::f32;
  const auto modified = [&](const char* name, Value x) {
    if (!call.has_attribute(name)) return x;
    const Results results = call.environment().run_body(call.body(name), {item_of(x)});
    return cast(value_of(call.environment(), *results.at(0)), dtype);
  };
  const Value scores = modified("score_mod", cast(matmul(q * root, transpose(k) * root), dtype));
  const Value weights = modified("prob_mod", softmax(scores, -1));
  return {item_of(cast(matmul(weights, cast(v, dtype)), v.dtype()))};
}

Value rotated(Call& call) {
  const Value given = call.tensor(0);
  const bool is_flat = given.rank() == 3, interleaved = call.attribute("interleaved", 0) != 0;
  Value x = heads_of(given, call.attribute("num_heads", 0));  // [batch, heads, time, size]
  const Dim size = x.dim(3);
  const int64_t stated = call.attribute("rotary_embedding_dim", 0),
                rotary = stated > 0 ? stated : size.value();
  const Value head = narrow(x, 3, 0, rotary);
  const auto cache = [&](size_t place) {
    Value table = call.tensor(place);
    if (call.has(3)) {
      const Value positions = call.tensor(3);
      table = reshape(index_select(table, 0, reshape(positions, {positions.shape().numel()})),
                      {positions.dim(0), positions.dim(1), table.dim(-1)});
    }
    return unsqueeze(table, 1);  // [batch, 1, time, rotary / 2]
  };
  const Value cosine = cache(1), sine = cache(2);
  Value a, b;
  if (interleaved) {
    const Value pairs = reshape(head, {x.dim(0), x.dim(1), x.dim(2), rotary / 2, 2});
    a = select(pairs, -1, 0), b = select(pairs, -1, 1);
  } else {
    a = narrow(head, 3, 0, rotary / 2), b = narrow(head, 3, rotary / 2, rotary / 2);
  }
  const Value real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  Value y = interleaved ? reshape(stack({real, imaginary}, 4), head.shape()) : concat({real, imaginary}, 3);
  if (size != Dim(rotary)) y = concat({y, narrow(x, 3, rotary, size - rotary)}, 3);
  return is_flat ? joined_heads(y) : y;
}

// A state [batch, heads, key size, value size] that decays, and takes up the product of each key and value.
Results linear_attention(Call& call) {
  const int64_t q_heads = call.attribute("q_num_heads", 0), heads = call.attribute("kv_num_heads", 0);
  const std::string rule = call.text("update_rule", "gated_delta");
  const bool corrects = rule == "delta" || rule == "gated_delta",
             decays = rule == "gated" || rule == "gated_delta";
  if (!corrects && !decays && rule != "linear") fail("its update_rule is '{}'", rule);
  call.accept_any("chunk_size");  // changes no result
  const auto wide = [&](size_t place, int64_t count) {
    return cast(heads_of(call.tensor(place), count), DType::f32);
  };
  const Value q = wide(0, q_heads), k = wide(1, heads), v = wide(2, heads);
  const double stated = call.real("scale", 0), size = static_cast<double>(q.dim(3).value());
  const double scale = stated == 0 ? 1 / std::sqrt(size) : stated;
  const DType state_type = call.has(3) ? call.tensor(3).dtype() : call.tensor(0).dtype();
  Value state = call.has(3) ? cast(call.tensor(3), DType::f32)
                            : call.g().zeros({k.dim(0), heads, k.dim(3), v.dim(3)}, DType::f32);
  const Value decay = decays ? wide(4, heads) : Value{};
  const Value beta = corrects ? wide(5, call.tensor(5).dim(2).value()) : Value{};
  std::vector<Value> outputs;
  for (int64_t t = 0; t < q.dim(2).value(); ++t) {
    const auto at = [&](Value x) { return select(x, 2, t); };  // [batch, heads, size]
    if (decays) state = state * unsqueeze(exp(at(decay)), -1);
    const Value key = at(k);
    Value value = at(v);
    if (corrects) value = at(beta) * (value - squeeze(matmul(unsqueeze(key, 2), state), 2));
    state = state + unsqueeze(key, 3) * unsqueeze(value, 2);
    outputs.push_back(matmul(unsqueeze(at(q), 2), for_heads(state, q_heads)) * scale);
  }
  const Value y = joined_heads(concat(outputs, 2));
  return {item_of(cast(y, call.tensor(0).dtype())), item_of(cast(state, state_type))};
}

}  // namespace

const Operators& attention_operators() {
  static const Operators kOperators = {
      {"Attention", attended, 23},
      {"LinearAttention", linear_attention},
      {"RotaryEmbedding", one<rotated>},
      {"ai.onnx.preview::FlexAttention", flexible},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
