#include "builder/transformer.h"

#include <cmath>

#include "builder/containers.h"
#include "schema/graph/inactive_layers.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::nn {

MultiheadAttention::MultiheadAttention(const Scope& scope, int64_t embed_dim, int64_t num_heads,
                                       const Options& options)
    : Module(scope), embed_dim_(embed_dim), num_heads_(num_heads), dropout_p_(options.dropout) {
  if (num_heads <= 0 || embed_dim <= 0 || embed_dim % num_heads != 0)
    fail("layer '{}': embed_dim {} is not a multiple of num_heads {}", path(), embed_dim, num_heads);
  if (options.kdim < 0 || options.vdim < 0)
    fail("layer '{}': kdim {} and vdim {} must not be negative", path(), options.kdim, options.vdim);
  if (!(options.dropout >= 0 && options.dropout <= 1))
    fail("layer '{}': dropout probability {} is not between 0 and 1", path(), options.dropout);
  if (options.dropout > 0) rng_ = scope.rng();
  const int64_t kdim = options.kdim ? options.kdim : embed_dim,
                vdim = options.vdim ? options.vdim : embed_dim;
  const auto weight = [&](const char* name, int64_t out, int64_t in) {
    return scope.parameter(name, {out, in}, init::xavier_uniform());
  };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = weight("in_proj_weight", 3 * embed_dim, embed_dim);
  } else {
    q_proj_weight = weight("q_proj_weight", embed_dim, embed_dim);
    k_proj_weight = weight("k_proj_weight", embed_dim, kdim);
    v_proj_weight = weight("v_proj_weight", embed_dim, vdim);
  }
  if (options.bias) in_proj_bias = scope.parameter("in_proj_bias", {3 * embed_dim}, init::zeros());
  out_proj_.emplace(scope / "out_proj", embed_dim, embed_dim, Linear::Options{.bias = options.bias});
  if (options.bias) {  // PyTorch initializes this bias with zeros, unlike that of any other Linear
    const Parameter& out_bias = out_proj_->bias;
    scope.model().set_initial(out_bias.index, Tensor::zeros(out_bias.state().type));
  }
}

// Projects x to the heads of q (part 0), k (1) or v (2).
Value MultiheadAttention::project(Value x, int64_t part) const {
  Graph& graph = *x.graph;
  const auto third = [&](Parameter all) {
    return slice(all.in(graph), 0, part * embed_dim_, (part + 1) * embed_dim_);
  };
  const Parameter own[] = {q_proj_weight, k_proj_weight, v_proj_weight};
  const Value weight = in_proj_weight ? third(in_proj_weight) : own[part].in(graph);
  const Value bias = in_proj_bias ? third(in_proj_bias) : Value{};
  return reshape(linear(x, weight, bias), {x.dim(0), x.dim(1), num_heads_, embed_dim_ / num_heads_});
}

namespace {

// Returns the causal mask [query_time, key_time]: a query sees the keys up to its own position, and positions count from the end.
Value seen_by_causality(Value scores) {
  Graph& graph = *scores.graph;
  const Dim queries = scores.dim(-2), keys = scores.dim(-1);
  const Value last = arange(graph, queries) + dim_value(graph, keys - queries);
  return arange(graph, keys) <= unsqueeze(last, -1);
}

}  // namespace

// Computes attention. With dropout in training the attention weights must be values of the graph, so it is written out in basic
// ops; the attention op does not expose them.
Value MultiheadAttention::attend(Value q, Value k, Value v, bool causal, Value mask) const {
  if (!q.graph->training() && dropout_p_ > 0) note_inactive_layer(*q.graph, "dropout of '" + path() + "'");
  if (!q.graph->training() || dropout_p_ == 0) return attention(q, k, v, {.causal = causal}, mask);
  const auto heads_first = [](Value x) { return transpose(x, 1, 2); };
  const int64_t head_size = embed_dim_ / num_heads_;
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  Value scores =
      cast(matmul(heads_first(q), heads_first(k), false, true), promote(q.dtype(), DType::f32)) * scale;
  Value seen = mask && mask.dtype() == DType::boolean ? mask : Value{};
  if (mask && !seen) scores = scores + cast(mask, scores.dtype());
  if (causal) {
    const Value before = seen_by_causality(scores);
    seen = seen ? logical_and(seen, before) : before;
  }
  if (seen) scores = where(seen, scores, scalar_like(scores, -1e30));
  Value weights = softmax(scores);
  if (seen)
    weights = where(seen, weights, scalar_like(weights, 0.0));  // a query that sees nothing gets zeros
  return heads_first(
      matmul(cast(dropout(rng_.in(*q.graph), weights, dropout_p_), v.dtype()), heads_first(v)));
}

Value MultiheadAttention::forward(Value query, Value key, Value value, bool causal, Value mask) const {
  const Value heads = attend(project(query, 0), project(key, 1), project(value, 2), causal, mask);
  return (*out_proj_)(reshape(heads, {query.dim(0), query.dim(1), embed_dim_}));
}

FeedForwardSwiGLU::FeedForwardSwiGLU(const Scope& scope, int64_t hidden_size, int64_t intermediate_size,
                                     bool bias, std::optional<init::Init> init)
    : Module(scope),
      gate_proj_(scope / "gate_proj", hidden_size, intermediate_size, {.bias = bias, .init = init}),
      up_proj_(scope / "up_proj", hidden_size, intermediate_size, {.bias = bias, .init = init}),
      down_proj_(scope / "down_proj", intermediate_size, hidden_size, {.bias = bias, .init = init}) {}

Value FeedForwardSwiGLU::forward(Value x) const {
  const Value gate = gate_proj_(x), up = up_proj_(x);
  return down_proj_(swiglu(gate, up));
}

}  // namespace genesis::nn
