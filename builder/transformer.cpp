#include "builder/transformer.h"

#include "builder/containers.h"
#include "schema/ops/matmul.h"
#include "schema/ops/slice.h"

namespace genesis::nn {

Value Residual::operator()(Value x) const { return x + layer_(x); }

MultiheadAttention::MultiheadAttention(const Scope& scope, int64_t embed_dim, int64_t num_heads, bool bias)
    : embed_dim_(embed_dim), num_heads_(num_heads), path_(scope.path()) {
  if (num_heads <= 0 || embed_dim <= 0 || embed_dim % num_heads != 0)
    fail("layer '{}': embed_dim {} is not a multiple of num_heads {}", path_, embed_dim, num_heads);
  in_proj_weight = scope.parameter("in_proj_weight", {3 * embed_dim, embed_dim}, init::xavier_uniform());
  if (bias) in_proj_bias = scope.parameter("in_proj_bias", {3 * embed_dim}, init::zeros());
  out_proj_.emplace(scope / "out_proj", embed_dim, embed_dim, Linear::Options{.bias = bias});
  if (bias) {  // unlike that of any other Linear
    const Parameter& out_bias = out_proj_->bias;
    scope.model().set_initial(out_bias.index, Tensor::zeros(out_bias.state().type));
  }
}

Value MultiheadAttention::operator()(Value query, Value key, Value value, bool causal, Value mask) const {
  Value attended;
  {
    const LayerScope names(query, path_);
    Graph& graph = *query.graph;
    const auto project = [&](Value x, int64_t part) {
      const Value weight = slice(in_proj_weight.in(graph), 0, part * embed_dim_, (part + 1) * embed_dim_);
      const Value bias = in_proj_bias
                             ? slice(in_proj_bias.in(graph), 0, part * embed_dim_, (part + 1) * embed_dim_)
                             : Value{};
      return reshape(linear(x, weight, bias), {x.dim(0), x.dim(1), num_heads_, embed_dim_ / num_heads_});
    };
    const Value heads =
        attention(project(query, 0), project(key, 1), project(value, 2), {.causal = causal}, mask);
    attended = reshape(heads, {query.dim(0), query.dim(1), embed_dim_});
  }
  return (*out_proj_)(attended);
}

FeedForwardSwiGLU::FeedForwardSwiGLU(const Scope& scope, int64_t hidden_size, int64_t intermediate_size,
                                     bool bias, const init::Init* init)
    : path_(scope.path()),
      gate_proj_(scope / "gate_proj", hidden_size, intermediate_size, {.bias = bias, .init = init}),
      up_proj_(scope / "up_proj", hidden_size, intermediate_size, {.bias = bias, .init = init}),
      down_proj_(scope / "down_proj", intermediate_size, hidden_size, {.bias = bias, .init = init}) {}

Value FeedForwardSwiGLU::operator()(Value x) const {
  const Value gate = gate_proj_(x), up = up_proj_(x);
  Value gated;
  {
    const LayerScope names(x, path_);
    gated = swiglu(gate, up);
  }
  return down_proj_(gated);
}

}  // namespace genesis::nn
