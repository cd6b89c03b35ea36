#include "schema/ops/nn/quantized_cache.h"

#include <algorithm>

namespace genesis {
namespace ops {
namespace {

TensorType scales_of(const TensorType& quants) {
  TensorType scales{DType::f32, quants.shape};
  scales.shape[quants.shape.rank() - 1] = 1;
  return scales;
}

// Checks quants [batch, positions, key_heads, size] and their scales.
void check_cache(const char* name, const TensorType& quants, const TensorType& scales) {
  if (quants.dtype != DType::i8 || quants.shape.rank() != 4)
    fail("quantized_attention: {} must be i8 [batch, positions, heads, head_size], got {}", name,
         quants.to_string());
  if (const TensorType expected = scales_of(quants); !(scales == expected))
    fail("quantized_attention: the scales of {} must be {}, got {}", name, expected.to_string(),
         scales.to_string());
}

}  // namespace

std::vector<TensorType> QuantizeRows::infer(Types in) const {
  if (!is_float(in[0].dtype) || in[0].shape.rank() == 0)
    fail("quantize_rows needs real numbers [..., n], got {}", in[0].to_string());
  return {{DType::i8, in[0].shape}, scales_of(in[0])};
}

std::vector<TensorType> QuantizedAttention::infer(Types in) const {
  const TensorType &q = in[0], &keys = in[1], &values = in[2], &length = in[5];
  if (!is_float(q.dtype) || q.dtype == DType::f64 || q.shape.rank() != 4)
    fail("quantized_attention: q must be f32, bf16 or f16 [batch, time, heads, head_size], got {}",
         q.to_string());
  check_cache("keys", keys, in[3]);
  check_cache("values", values, in[4]);
  for (const int axis : {0, 1, 2})
    if (!(keys.shape[axis] == values.shape[axis]))
      fail("quantized_attention: keys {} and values {} differ", keys.to_string(), values.to_string());
  if (!(q.shape[0] == keys.shape[0]) || !(q.shape[3] == keys.shape[3]))
    fail("quantized_attention: q {} does not fit keys {}", q.to_string(), keys.to_string());
  if (!q.shape[2].divide_exact(keys.shape[2]))
    fail("quantized_attention: {} query heads are not a multiple of {} key heads", q.shape[2].to_string(),
         keys.shape[2].to_string());
  if (!(length == TensorType{DType::i64, {}}) && !(length == TensorType{DType::i64, {q.shape[0]}}))
    fail("quantized_attention: key_length must be an i64 scalar or i64[{}], got {}", q.shape[0].to_string(),
         length.to_string());
  if (window < 0) fail("quantized_attention: window must not be negative, got {}", window);
  TensorType y = q;
  y.shape[3] = values.shape[3];
  return {y};
}

Cost QuantizedAttention::cost(Types in, Types out) const {
  return {bytes_moved(in, out), 2 * product_flops(in[0], axis_size(in[1], 1)), true};
}

double QuantizedAttention::sum_length(Types in, Types) const {
  return row_length(in[0]) + static_cast<double>(axis_size(in[1], 1));
}

}  // namespace ops

std::span<const OpDef* const> quantized_cache_ops() {
  return kOpDefs<ops::QuantizeRows, ops::QuantizedAttention>;
}

QuantizedRows quantize_rows(Value x) {
  const std::vector<Value> parts = emit_node(ops::QuantizeRows{}, {x});
  return {parts[0], parts[1]};
}

Value quantized_attention(Value q, const QuantizedRows& keys, const QuantizedRows& values, Value key_length,
                          const ops::QuantizedAttention& options) {
  return emit(options, {q, keys.quants, values.quants, keys.scales, values.scales, key_length});
}

}  // namespace genesis
