#include "models/families/decoder/attention.h"

#include <cmath>
#include <utility>

#include "models/families/decoder/norm.h"

namespace genesis::models {

namespace {

std::optional<nn::Linear> linear_if(bool exists, const Scope& s, int64_t in, int64_t out,
                                    const nn::Linear::Options& options) {
  if (!exists) return {};
  return nn::Linear(s, in, out, options);
}

}  // namespace

SelfAttention::SelfAttention(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                             const NetworkDesign& network, const init::Init& init, KeysOfLayers keys)
    : Module(s),
      config_(c),
      design_(design),
      network_(network),
      keys_(std::move(keys)),
      q_proj_(s / "q_proj", c.hidden_size,
              c.num_attention_heads * c.head_size() * (design.output_gates ? 2 : 1),
              {.bias = design.qkv_biases, .init = init}),
      k_proj_(linear_if(has_keys(), s / "k_proj", c.hidden_size, c.num_key_value_heads * c.head_size(),
                        {.bias = design.qkv_biases, .init = init})),
      v_proj_(linear_if(has_keys() && !design.values_are_keys, s / "v_proj", c.hidden_size,
                        c.num_key_value_heads * c.head_size(), {.bias = design.qkv_biases, .init = init})),
      o_proj_(s / "o_proj", c.num_attention_heads * c.head_size(), c.hidden_size,
              {.bias = design.output_bias, .init = init}) {
  if (has_keys()) cache_.emplace(s, c.cache_size(), c.num_key_value_heads, c.head_size());
  add_head_norms(s);
  if (design.sinks) sinks_ = s.parameter("sinks", {c.num_attention_heads}, init);
}

void SelfAttention::add_head_norms(const Scope& s) {
  if (design_.head_norms == HeadNorms::kNone) return;
  const auto norm = [&](const char* name, int64_t heads) {
    const double eps = config_.rms_norm_eps;
    if (design_.head_norms == HeadNorms::kPerHeadOwn)
      return make_own_norms(s / name, heads, config_.head_size(), network_.norm, eps);
    const int64_t together = design_.head_norms == HeadNorms::kWhole ? heads : 1;
    return make_norm(s / name, together * config_.head_size(), network_.norm, eps);
  };
  q_norm_ = norm("q_norm", config_.num_attention_heads);
  if (has_keys()) k_norm_ = norm("k_norm", config_.num_key_value_heads);
}

Value SelfAttention::heads_of(Value projection, int64_t heads, const Norm& norm) const {
  if (design_.qkv_limit > 0) projection = clamp(projection, -design_.qkv_limit, design_.qkv_limit);
  if (norm && design_.head_norms == HeadNorms::kWhole) projection = (*norm)(projection);
  return reshape(projection, {projection.dim(0), projection.dim(1), heads, config_.head_size()});
}

bool SelfAttention::has_part_that_stays() const {
  return network_.rotary_size != 0 && network_.rotary_size != config_.head_size();
}

Value SelfAttention::rotated(Value x, const Positions& positions, Value frequencies) const {
  if (design_.rotation == RotationKind::kNone) return x;
  const bool is_local = design_.local_theta > 0;
  const nn::RotaryEmbedding rotary{.theta = is_local ? design_.local_theta : config_.rope_theta,
                                   .kind = design_.pairs,
                                   .rotary_size = network_.rotary_size};
  const Value y = rotary(x, positions.ids, is_local ? Value() : frequencies);
  const nn::RopeScaling& scaling = config_.rope_scaling;
  if (!has_part_that_stays() || is_local || scaling.of_scores() == 1) return y;
  // The attention factor multiplies cosines and sines, so it does not reach the part of a head that does not rotate.
  return concat(
      {slice(y, 3, 0, network_.rotary_size) * scaling.attention_factor, slice(y, 3, network_.rotary_size)},
      3);
}

Value SelfAttention::with_temperature(Value q, const Positions& positions) const {
  if (design_.temperature_beta == 0) return q;
  const Value turns =
      floor(cast(positions.ids, DType::f32) / static_cast<double>(config_.rope_scaling.original_positions));
  const Value growth = log(turns + 1) * design_.temperature_beta + 1;
  return q * cast(unsqueeze(unsqueeze(growth, -1), -1), q.dtype());
}

// Returns the scale of attention scores; 0 means the default. A RoPE scaling that also scales q and k (YaRN) is applied to the
// scores instead, if it reaches all elements.
double SelfAttention::scale() const {
  const bool reaches_all =
      design_.rotation != RotationKind::kNone && design_.local_theta == 0 && !has_part_that_stays();
  const double more = reaches_all ? config_.rope_scaling.of_scores() : 1;
  if (more == 1) return design_.score_scale;
  const double standard = std::sqrt(static_cast<double>(config_.head_size()));
  return design_.score_scale > 0 ? more * design_.score_scale : more / standard;
}

Value SelfAttention::forward(Value x, const Positions& positions, Value frequencies) const {
  const int64_t size = config_.head_size();
  Value projected = q_proj_(x), gates;
  if (design_.output_gates) {
    const Value both = reshape(projected, {x.dim(0), x.dim(1), config_.num_attention_heads, 2 * size});
    projected = slice(both, 3, 0, size);
    gates = sigmoid(slice(both, 3, size));
  }
  const bool are_whole = design_.head_norms == HeadNorms::kWhole;
  Value q = heads_of(projected, config_.num_attention_heads, q_norm_), k, v;
  if (has_keys()) {
    k = heads_of((*k_proj_)(x), config_.num_key_value_heads, k_norm_);
    v = v_proj_ ? heads_of((*v_proj_)(x), config_.num_key_value_heads, {}) : k;
    if (design_.value_norms) v = rms_norm(v, {}, config_.rms_norm_eps, 1);
  }
  if (q_norm_ && !are_whole) q = (*q_norm_)(q);
  if (k_norm_ && !are_whole) k = (*k_norm_)(k);
  const Value sinks = sinks_ ? sinks_.in(*x.graph) : Value();
  if (has_keys()) k = rotated(k, positions, frequencies);
  q = with_temperature(rotated(q, positions, frequencies), positions);
  const KeyValueCache::Seen seen =
      has_keys() ? cache_->append(k, v, positions) : keys_->at(static_cast<size_t>(design_.keys_of));
  keys_->push_back(seen);
  Value heads = KeyValueCache::attend_to(q, seen, positions, {.scale = scale(), .window = design_.window},
                                         design_.score_limit, sinks);
  if (gates) heads = heads * gates;
  return o_proj_(reshape(heads, {x.dim(0), x.dim(1), config_.num_attention_heads * size}));
}

}  // namespace genesis::models
