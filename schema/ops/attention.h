// Attention, and the ops that go with it in a transformer (rope.h, swiglu.h).
//
// A query that sees no key at all gives zeros, and its row statistic is -inf; its gradients are zero.
#pragma once

#include "schema/graph.h"
#include "schema/ops/rope.h"
#include "schema/ops/swiglu.h"

namespace genesis {

enum class AttentionLayout : uint8_t {
  kBTHD,  // [batch, time, heads, head_size]: as linear projections give it, no transposes needed
  kBHTD,  // [batch, heads, time, head_size]: PyTorch's scaled_dot_product_attention
};

template <>
struct EnumNames<AttentionLayout> {
  static constexpr std::string_view names[] = {"bthd", "bhtd"};
};

struct AttentionOptions {
  bool causal = false;  // query i sees keys j <= i + (key_length - query_length)
  double scale = 0;     // 0: 1 / sqrt(head_size)
  AttentionLayout layout = AttentionLayout::kBTHD;
};

namespace ops {

// What attention and its gradient have in common. Optional inputs come last: mask, then key_length.
struct AttentionRules {
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(head_size)
  AttentionLayout layout = AttentionLayout::kBTHD;
  bool has_mask = false, has_key_length = false;
  static void fields(auto& self, auto&& visit) {
    visit("causal", self.causal);
    visit("scale", self.scale);
    visit("layout", self.layout);
    visit("has_mask", self.has_mask);
    visit("has_key_length", self.has_key_length);
  }
};

struct Attention : AttentionRules {
  static constexpr OpInfo info{
      .name = "attention",
      .doc =
          "softmax(scale q k^T + mask) v per head, with grouped key heads; `with_lse` adds "
          "the log-sum-exp of each row as output 1.",
      .inputs = {3, 5},
      .precision = Precision::kMatmul};
  bool with_lse = false;
  static void fields(auto& self, auto&& visit) {
    AttentionRules::fields(self, visit);
    visit("with_lse", self.with_lse);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// Inputs q, k, v, y, lse, dy [, mask] [, key_length]; outputs dq, dk, dv.
struct AttentionGrad : AttentionRules {
  static constexpr OpInfo info{
      .name = "attention_grad",
      .doc =
          "The gradients of attention by q, k and v, from (q, k, v, y, lse, dy) and what "
          "else the attention was given.",
      .inputs = {6, 8},
      .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// softmax(scale * q k^T + mask) v. Key and value may have fewer heads than the query (grouped-query
// attention): query head h reads key head h / (query_heads / key_heads); v may have a head size of its own.
// mask: bool (true = see) or float (added), broadcast to [batch, heads, query_time, key_time]. key_length:
// i64 scalar; only the first key_length keys exist (a KV cache that is partly filled), and causality counts
// from it.
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {}, Value mask = {},
                Value key_length = {});

}  // namespace genesis
