#include "models/families/decoder/mixture.h"

#include <cmath>
#include <limits>

#include "models/families/decoder/mlp.h"
#include "models/families/decoder/norm.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::models {
// The pairs of a token and an expert that it chose, sorted by expert.
struct Mixture::Pairs {
  Value tokens, experts;  // i64 [pairs]: the token and the expert of each pair
  Value places;           // i64 [batch, time, chosen]: the place of each pair among the sorted ones
  Value offsets;          // i64 [experts + 1]: the first pair of each expert
};

Mixture::Pairs Mixture::sorted_by_expert(Value chosen, int64_t experts) {
  const auto [tokens, sorted, places, offsets] = sort_groups(chosen, experts);
  return {tokens, sorted, places, offsets};
}

namespace {

Value sum_of(Value total, Value more) { return total ? total + more : more; }

}  // namespace

Value router_loss(const std::vector<Routing>& layers) {
  if (layers.empty()) return {};
  Value shares, probabilities, squares;
  for (const Routing& layer : layers) {
    Graph& graph = *layer.counts.graph;
    const Value tokens =
        dim_value(graph, layer.logits.dim(0), DType::f32) * dim_value(graph, layer.logits.dim(1), DType::f32);
    shares = sum_of(shares, cast(layer.counts, DType::f32) / tokens);
    probabilities = sum_of(probabilities, mean(softmax(layer.logits), {0, 1}));
    squares = sum_of(squares, mean(square(logsumexp(layer.logits, {2}))));
  }
  const auto count = static_cast<double>(layers.size()), experts = static_cast<double>(shares.dim(0).value());
  const auto& [logits, counts, balance, z] = layers.front();
  Value loss;
  if (balance != 0) loss = sum(shares * probabilities) * (balance * experts / (count * count));
  if (z != 0) loss = sum_of(loss, squares * (z / count));
  return loss;
}

Mixture::Mixture(const Scope& s, int64_t hidden_size, const ExpertsDesign& design, const init::Init& init,
                 RoutingLog log)
    : Module(s),
      design_(design),
      router_(s / design.router, hidden_size, design.count, {.bias = design.biases, .init = init}),
      log_(std::move(log)) {
  const Scope experts = s / "experts";
  const int64_t read = design.latent_size > 0 ? design.latent_size : hidden_size;
  const Shape in{design.count, design.intermediate_size, read},
      out{design.count, read, design.intermediate_size};
  if (design.has_gate()) gate_ = (experts / design.gate).parameter("weight", in, init);
  up_ = (experts / design.up).parameter("weight", in, init);
  down_ = (experts / design.down).parameter("weight", out, init);
  if (design.biases) {
    const Shape between{design.count, design.intermediate_size};
    if (design.has_gate()) gate_biases_ = (experts / design.gate).parameter("bias", between, init::zeros());
    up_biases_ = (experts / design.up).parameter("bias", between, init::zeros());
    down_biases_ = (experts / design.down).parameter("bias", {design.count, read}, init::zeros());
  }
  if (design.scaled_router) {
    router_scale_ = (s / design.scaled_router).parameter("scale", {hidden_size}, init::ones());
    expert_scales_ = (s / design.scaled_router).parameter("per_expert_scale", {design.count}, init::ones());
  }
  if (design.read_norm) read_norm_ = make_norm(s / design.read_norm, hidden_size, NormKind::kRms, design.eps);
  if (design.choice_bias) choice_bias_ = s.buffer(design.choice_bias, {design.count});
  if (design.latent_size > 0) {
    latent_in_ = nn::Linear(s / design.latent_in, hidden_size, read, {.bias = false, .init = init});
    latent_out_ = nn::Linear(s / design.latent_out, read, hidden_size, {.bias = false, .init = init});
  }
  if (design.shared_size == 0) return;
  const LayerDesign like{.mlp = design.has_gate() ? MlpKind::kSwiGlu : MlpKind::kSquaredRelu};
  shared_ = make_mlp(s / design.shared, hidden_size, design.shared_size, like, init);
  if (design.shared_gate)
    shared_gate_ = nn::Linear(s / design.shared_gate, hidden_size, 1, {.bias = false, .init = init});
}

// Replaces the scores of experts outside of a token's groups by minus infinity.
Value Mixture::within_groups(Value scores) const {
  if (design_.groups == 1) return scores;
  const int64_t each = design_.count / design_.groups;
  const Value grouped = reshape(scores, {scores.dim(0), scores.dim(1), design_.groups, each});
  const Value of_groups = sum(topk(grouped, std::min(design_.best_of_group, each)).values, {3});
  const Value best = topk(of_groups, design_.chosen_groups).indices;  // [batch, time, chosen_groups]
  const Value is_best = any(eq(unsqueeze(best, 2), unsqueeze(arange(*scores.graph, design_.groups), 1)), {3});
  const Value kept = where(unsqueeze(is_best, 3), grouped, -std::numeric_limits<double>::infinity());
  return reshape(kept, scores.shape());
}

Value Mixture::normalized(Value factors) const {
  if (!design_.normalized) return factors;
  const Value total = sum(factors, {2}, true);
  return factors / (design_.least_sum == 0 ? total : total + design_.least_sum);
}

// Returns the router's numbers in f32 at least.
Value Mixture::routed(Value x) const {
  if (router_scale_) {
    const double scale = 1 / std::sqrt(static_cast<double>(x.dim(2).value()));
    x = rms_norm(x, {}, design_.eps, 1) * router_scale_.in(*x.graph) * scale;
  }
  return cast(router_(x, true), promote(x.dtype(), DType::f32));
}

Mixture::Choice Mixture::choose(Value logits) const {
  if (design_.scores == RouterScores::kSoftmaxOfChosen) {
    const auto [values, experts] = topk(logits, design_.chosen);
    return {experts, softmax(values)};
  }
  const Value scores = design_.scores == RouterScores::kSigmoid ? sigmoid(logits) : softmax(logits);
  const Value wanted =
      within_groups(choice_bias_ ? scores + cast(choice_bias_.in(*logits.graph), scores.dtype()) : scores);
  const auto [values, experts] = topk(wanted, design_.chosen);
  const bool are_scores = !choice_bias_;
  Value factors = normalized(are_scores ? values : gather(scores, 2, experts));
  if (expert_scales_) {
    const Value scales = embedding(experts, unsqueeze(expert_scales_.in(*logits.graph), 1));
    factors = factors * cast(squeeze(scales, 3), factors.dtype());
  }
  return {experts, design_.factor == 1 ? factors : factors * design_.factor};
}

// Adds up what the experts of a token computed: [batch, time, chosen, hidden] -> [batch, time, hidden]. As a product, the sum is
// computed in f32 and has the dtype of the layer.
Value Mixture::weigh(Value pairs, Value factors) const {
  return squeeze(matmul(unsqueeze(cast(factors, pairs.dtype()), 2), pairs), 2);
}

// Multiplies each row with the matrix of its expert.
Value Mixture::multiply(Value rows, const Parameter& weights, const Parameter& biases,
                        const Pairs& pairs) const {
  Graph& graph = *rows.graph;
  const Value y = grouped_matmul(rows, weights.in(graph), pairs.offsets);
  if (!biases) return y;
  const Value own = index_select(biases.in(graph), 0, pairs.experts);
  return y + (rows.rank() == 3 ? unsqueeze(own, 1) : own);
}

// A bias of the choice does not count here, as in transformers.
Routing Mixture::routing_of(Value logits, const Pairs& pairs) const {
  const Value offsets =
      choice_bias_ ? sort_groups(topk(logits, design_.chosen).indices, design_.count).offsets : pairs.offsets;
  return {logits, slice(offsets, 0, 1) - slice(offsets, 0, 0, design_.count), design_.balance_loss,
          design_.z_loss};
}

Value Mixture::gated(Value gate, Value up) const {
  if (design_.gelu) return gelu(gate, GeluKind::kTanh) * up;
  if (design_.limit == 0) return swiglu(gate, up);
  gate = minimum(gate, design_.limit);
  return gate * sigmoid(gate * design_.gate_slope) * (clamp(up, -design_.limit, design_.limit) + 1);
}

Value Mixture::forward(Value x) const {
  const Value logits = routed(x);
  if (read_norm_) x = (*read_norm_)(x);
  const Choice choice = choose(logits);
  const Pairs pairs = sorted_by_expert(choice.experts, design_.count);
  if (design_.balance_loss != 0 || design_.z_loss != 0) log_->push_back(routing_of(logits, pairs));
  // Rows of different texts are rows [1, hidden] of a batch: their number must not choose the order of sums
  // (product_implementations.h).
  const bool are_alone = x.dim(1) == Dim(1);
  const Value read = latent_in_ ? (*latent_in_)(x) : x;
  Value gathered = index_select(reshape(read, {read.dim(0) * read.dim(1), read.dim(2)}), 0, pairs.tokens);
  if (are_alone) gathered = unsqueeze(gathered, 1);
  const Value up = multiply(gathered, up_, up_biases_, pairs);
  const Value between =
      design_.has_gate() ? gated(multiply(gathered, gate_, gate_biases_, pairs), up) : square(relu(up));
  const Value results = multiply(between, down_, down_biases_, pairs);
  Value sums = weigh(embedding(pairs.places, are_alone ? squeeze(results, 1) : results), choice.factors);
  if (latent_out_) sums = (*latent_out_)(sums);
  if (!shared_) return sums;
  const Value shared = (*shared_)(x);
  return sums + (shared_gate_ ? sigmoid((*shared_gate_)(x)) * shared : shared);
}

}  // namespace genesis::models
