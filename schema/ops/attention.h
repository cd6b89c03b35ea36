// Attention and what goes with it.
#pragma once

#include "schema/graph.h"

namespace genesis {

enum class AttentionLayout : uint8_t {
  kBTHD,  // [batch, time, heads, head_size]: as linear projections give it, no transposes needed
  kBHTD,  // [batch, heads, time, head_size]: PyTorch's scaled_dot_product_attention
};

struct AttentionOptions {
  bool causal = false;  // query i sees keys j <= i + (key_length - query_length)
  double scale = 0;     // 0: 1 / sqrt(head_size)
  AttentionLayout layout = AttentionLayout::kBTHD;
};

// softmax(scale * q k^T + mask) v. Key and value may have fewer heads than the query (grouped-query
// attention): query head h reads key head h / (query_heads / key_heads). mask: bool (true = see) or float
// (added), broadcast to [batch, heads, query_time, key_time]. key_length: i64 scalar; only the first
// key_length keys exist (a KV cache that is partly filled), and causality counts from it.
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {}, Value mask = {},
                Value key_length = {});

enum class RopeKind : uint8_t {
  kHalf,         // pairs (i, i + d/2): GPT-NeoX, Llama, Qwen in transformers
  kInterleaved,  // pairs (2i, 2i + 1): GPT-J, the original paper
};
// Rotary position embedding of x [batch, time, heads, head_size]. positions: i64[time] or [batch, time].
// Rotates the first `rotary_size` elements of a head (0: all).
Value rope(Value x, Value positions, double theta = 10000.0, RopeKind kind = RopeKind::kHalf,
           int64_t rotary_size = 0);

Value swiglu(Value gate, Value up);  // silu(gate) * up

}  // namespace genesis
