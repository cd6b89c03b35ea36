#include "schema/ops/nn/cached_attention.h"

namespace genesis {
namespace ops {

Rope CachedAttention::rope() const {
  Rope op;
  op.theta = theta;
  op.kind = kind;
  op.rotary_size = rotary_size;
  return op;
}

std::vector<TensorType> CachedAttention::infer(Types in) const {
  constexpr const char* kNames[] = {"q", "k", "v", "k_cache", "v_cache"};
  for (size_t i = 0; i < 5; ++i) {
    if (!is_float(in[i].dtype) || in[i].shape.rank() != 4 || in[i].dtype != in[0].dtype)
      fail("cached_attention: {} must be floating-point [batch, time, heads, head_size] of q's dtype, got {}",
           kNames[i], in[i].to_string());
    if (i < 3 && !(in[i].shape[1] == Dim(1)))
      fail("cached_attention: {} must be of one token, got {}", kNames[i], in[i].to_string());
  }
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  for (size_t i = 0; i < 2; ++i) {  // k and v
    const Shape &one = in[1 + i].shape, &cache = in[3 + i].shape;
    if (!(one[0] == cache[0]) || !(one[2] == cache[2]) || !(one[3] == cache[3]))
      fail("cached_attention: {} {} does not fit {} {}", kNames[1 + i], in[1 + i].to_string(), kNames[3 + i],
           in[3 + i].to_string());
  }
  if (!(q[0] == k[0]) || !(q[3] == k[3]) || !(k[2] == v[2]) || !(in[3].shape[1] == in[4].shape[1]))
    fail("cached_attention: sizes differ in q {}, k {}, v {}, caches {} and {}", in[0].to_string(),
         in[1].to_string(), in[2].to_string(), in[3].to_string(), in[4].to_string());
  if (!q[2].divide_exact(k[2]))
    fail("cached_attention: {} query heads are not a multiple of {} key heads", q[2].to_string(),
         k[2].to_string());
  if (!(in[5] == TensorType{DType::i64, {}}) && !(in[5] == TensorType{DType::i64, {q[0]}}))
    fail(
        "cached_attention: start must be an i64 scalar, or i64[{}] with one of each row of the batch, got {}",
        q[0].to_string(), in[5].to_string());
  if (window < 0) fail("cached_attention: window must not be negative, got {}", window);
  if (in.size() > 6 && !rotates) fail("cached_attention takes frequencies only where it rotates q and k");
  if (rotates) {
    std::vector<TensorType> rotated = {in[0], {DType::i64, {1}}};
    if (in.size() > 6) rotated.push_back(in[6]);
    rope().infer(rotated);
  }
  TensorType y = in[0];
  y.shape[3] = v[3];
  return {y, in[3], in[4]};
}

Cost CachedAttention::cost(Types in, Types out) const {
  // The cost at the end of the cache. The caches are read; the outputs add only one new token to them.
  return {bytes_moved(in, out.first(1)), 2 * product_flops(in[0], axis_size(in[3], 1)), true};
}

double CachedAttention::sum_length(Types in, Types) const {
  return row_length(in[0]) + static_cast<double>(axis_size(in[3], 1));
}

}  // namespace ops

std::span<const OpDef* const> cached_attention_ops() { return kOpDefs<ops::CachedAttention>; }

std::vector<Value> cached_attention(Value q, Value k, Value v, Value k_cache, Value v_cache, Value start,
                                    const ops::CachedAttention& options, Value frequencies) {
  std::vector<Value> inputs = {q, k, v, k_cache, v_cache, start};
  if (frequencies) inputs.push_back(frequencies);
  return emit_node(options, inputs);
}

}  // namespace genesis
