// Attention, and the ops that accompany it in a transformer (rope.h, swiglu.h).
//
// A query that sees no key at all gives zeros, and its row statistic is -inf; its gradients are zero.
#pragma once

#include <array>

#include "schema/graph/graph.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis {

enum class AttentionLayout : uint8_t {
  kBTHD,  // [batch, time, heads, head_size]: the output of linear projections, without transposes
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
  // Sliding window: each query sees only its last `window` visible keys; 0: no window. Requires `causal`.
  int64_t window = 0;
};

namespace ops {

// The error that kernels report if key_start decreases along a row.
inline constexpr const char* kFallingStarts =
    "key_start of attention falls along a row: tokens of one text must stand side by side";

// The attributes and inputs that attention and its gradient have in common. Optional inputs come last: mask, then key_start, then
// key_length. Instead of q, k and v the ops may take one packed tensor [batch, time, heads + 2 packed_key_heads, head_size] that
// holds the heads of q, k and v in this order; their gradients then form one tensor of the same layout.
struct AttentionRules : AttentionOptions {
  bool has_mask = false, has_key_start = false, has_key_length = false;
  int64_t packed_key_heads = 0;  // 0: q, k and v are three tensors

  bool packed() const { return packed_key_heads > 0; }
  int operands() const { return packed() ? 1 : 3; }  // number of inputs that hold q, k and v
  int optional_inputs() const { return has_mask + has_key_start + has_key_length; }
  static void fields(auto& self, auto&& visit) {
    visit("causal", self.causal);
    visit("scale", self.scale);
    visit("layout", self.layout);
    visit("has_mask", self.has_mask);
    visit("has_key_start", self.has_key_start);
    visit("has_key_length", self.has_key_length);
    visit("packed_key_heads", self.packed_key_heads);
    visit("window", self.window);
  }
};

// Returns the common attributes of a node of either op.
AttentionRules attention_rules(const OpDef& op, const Attributes& attributes);

// Returns the types of q, k and v; derives them from a packed operand.
std::array<TensorType, 3> qkv_types(const AttentionRules& rules, Types in);

struct Attention : AttentionRules {
  static constexpr OpInfo info{
      .name = "attention",
      .doc =
          "softmax(scale q k^T + mask) v per head, with grouped key heads; `with_lse` adds "
          "the log-sum-exp of each row as output 1. `packed_key_heads`: one tensor holds q, k and v. "
          "`window`: a causal query sees only the last `window` keys up to its own (0: all). "
          "`has_key_start`: an input holds the position where each query's keys begin, as in rows of several "
          "texts.",
      .inputs = {1, 6},
      .precision = Precision::kMatmul};
  bool with_lse = false;
  static void fields(auto& self, auto&& visit) {
    AttentionRules::fields(self, visit);
    visit("with_lse", self.with_lse);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// Inputs: q, k, v (or the packed tensor), y, lse, dy [, mask] [, key_start] [, key_length]. Outputs: dq, dk, dv (or one packed
// tensor).
struct AttentionGrad : AttentionRules {
  static constexpr OpInfo info{.name = "attention_grad",
                               .doc =
                                   "The gradients of attention for q, k and v, from (q, k, v, y, lse, dy) "
                                   "and the other inputs of the attention.",
                               .inputs = {4, 9},
                               .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
};

}  // namespace ops

// Returns softmax(scale * q k^T + mask) v. k and v may have fewer heads than q (grouped-query attention): query head h reads key
// head h / (query_heads / key_heads). v may have another head size.
//
// mask: bool (true = visible) or float (added to the scores), broadcast to [batch, heads, query_time, key_time].
// key_length: i64 scalar; only the first key_length keys exist (a partly filled KV cache), and causality counts from it. Or
// i64[batch], one per row of the batch; it may then exceed the number of keys, for example if a row's queries are padded at the
// end of its cache.
// key_start: i64[batch, query_time]; a query sees only keys from there on. It must not decrease along a row, otherwise the run
// gives an error; it is meant for rows that hold several texts, one after the other. Kernels skip the keys that it hides, unlike
// those that a mask hides.
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {}, Value mask = {},
                Value key_length = {}, Value key_start = {});

// The same for q, k and v packed into one tensor, head by head: qkv is [batch, time, heads + 2 key_heads, head_size].
Value packed_attention(Value qkv, int64_t key_heads, const AttentionOptions& options = {}, Value mask = {},
                       Value key_length = {}, Value key_start = {});

}  // namespace genesis
