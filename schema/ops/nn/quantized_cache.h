// Ops of a KV cache in 8 bits: keys and values are i8, each head of each token with a scale of its own. with_quantized_cache()
// (passes/core/quantized_cache.h) gives a model such a cache.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

struct QuantizeRows {
  static constexpr OpInfo info{
      .name = "quantize_rows",
      .doc =
          "Quants i8 [..., n] and scales f32 [..., 1] of x [..., n]: scale = max(abs(x)) / 127 over the last "
          "axis, quant = round(x / scale). The scale of a row with a NaN or an infinity is NaN.",
      .inputs = {1, 1},
      .precision = Precision::kExact};
  static void fields(auto&, auto&&) {}
  std::vector<TensorType> infer(Types in) const;
};

struct QuantizedAttention {
  static constexpr OpInfo info{
      .name = "quantized_attention",
      .doc =
          "Causal attention of q [batch, time, heads, size] to the first `key_length` keys and values, of "
          "which it "
          "reads quants i8 [batch, positions, key_heads, size] and scales f32 [batch, positions, key_heads, "
          "1]: a "
          "number is its quant times its scale. Inputs q, keys, values, key scales, value scales, "
          "key_length, "
          "which "
          "is i64[] or i64[batch] as in attention.",
      .inputs = {6, 6},
      .precision = Precision::kExact};
  double scale = 0;    // 0: 1 / sqrt(head_size)
  int64_t window = 0;  // sliding window in tokens; 0: none
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale);
    visit("window", self.window);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
};

}  // namespace ops

// The parts of quantized rows.
struct QuantizedRows {
  Value quants;  // i8 [..., n]
  Value scales;  // f32 [..., 1]
};

// x: real numbers [..., n].
QuantizedRows quantize_rows(Value x);

// q: f32, bf16 or f16. Inference only: it has no gradient.
Value quantized_attention(Value q, const QuantizedRows& keys, const QuantizedRows& values, Value key_length,
                          const ops::QuantizedAttention& options = {});

}  // namespace genesis
