// Layers of transformers. Activations are [batch, time, features]; heads are [batch, time, heads, head_size].
#pragma once

#include <optional>

#include "builder/layers.h"

namespace genesis::nn {

// torch.nn.MultiheadAttention with batch_first=True. The parameters are in_proj_weight [3 embed_dim, embed_dim], in_proj_bias and
// out_proj; if keys or values have another size, q_proj_weight, k_proj_weight and v_proj_weight replace in_proj_weight.
class MultiheadAttention : public Module<MultiheadAttention> {
 public:
  struct Options {
    double dropout = 0;  // dropout of the attention weights in training, which then exist in memory
    bool bias = true;
    int64_t kdim = 0, vdim = 0;  // features of key and value; 0: embed_dim
  };
  MultiheadAttention(const Scope& scope, int64_t embed_dim, int64_t num_heads, const Options& options);
  MultiheadAttention(const Scope& scope, int64_t embed_dim, int64_t num_heads, bool bias = true)
      : MultiheadAttention(scope, embed_dim, num_heads, Options{.bias = bias}) {}
  // mask: bool (true = visible) or float (added to the scores), broadcast to [batch, heads, query_time, key_time].
  Value forward(Value query, Value key, Value value, bool causal = false, Value mask = {}) const;
  Value forward(Value x, bool causal = false) const { return forward(x, x, x, causal); }

  Parameter in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;

 private:
  Value project(Value x, int64_t part) const;
  Value attend(Value q, Value k, Value v, bool causal, Value mask) const;

  int64_t embed_dim_, num_heads_;
  double dropout_p_;
  std::optional<Linear> out_proj_;
  Parameter rng_;
};

// Computes down_proj(silu(gate_proj(x)) * up_proj(x)), the feed-forward layer of Llama and Qwen.
class FeedForwardSwiGLU : public Module<FeedForwardSwiGLU> {
 public:
  FeedForwardSwiGLU(const Scope& scope, int64_t hidden_size, int64_t intermediate_size, bool bias = false,
                    std::optional<init::Init> init = {});
  Value forward(Value x) const;

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

// Rotary position embedding without parameters.
struct RotaryEmbedding {
  double theta = 10000;
  RopeKind kind = RopeKind::kHalf;
  int64_t rotary_size = 0;  // 0: the whole head
  // `frequencies` are those of a scaled rotation (rope_scaling.h); if empty, theta determines them.
  Value operator()(Value x, Value positions, Value frequencies = {}) const {
    return rope(x, positions, theta, kind, rotary_size, 0, frequencies);
  }
};

}  // namespace genesis::nn
