#include "models/families/decoder/latent_attention.h"

namespace genesis::models {
namespace {

constexpr double kEps = 1e-6;  // epsilon of the norms of short vectors; no setting changes it

}  // namespace

LatentAttention::LatentAttention(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                                 const init::Init& init)
    : Module(s),
      config_(c),
      design_(design),
      kv_a_proj_with_mqa_(s / "kv_a_proj_with_mqa", c.hidden_size,
                          design.latent.kv_rank + design.latent.rotating,
                          {.bias = design.output_bias, .init = init}),
      kv_b_proj_(s / "kv_b_proj", design.latent.kv_rank,
                 c.num_attention_heads * (design.latent.staying + design.latent.value),
                 {.bias = false, .init = init}),
      o_proj_(s / "o_proj", c.num_attention_heads * design.latent.value, c.hidden_size,
              {.bias = design.output_bias, .init = init}),
      kv_a_layernorm_(s / "kv_a_layernorm", design.latent.kv_rank, kEps),
      cache_(s, c.cache_size(), 1, design.latent.kv_rank + design.latent.rotating,
             KeyValueCache::Kept::kOne) {
  const LatentDesign& l = design.latent;
  const int64_t queries = c.num_attention_heads * (l.staying + l.rotating);
  if (l.q_rank == 0) {
    q_proj_ = nn::Linear(s / "q_proj", c.hidden_size, queries, {.bias = false, .init = init});
    return;
  }
  q_a_proj_ = nn::Linear(s / "q_a_proj", c.hidden_size, l.q_rank, {.bias = design.output_bias, .init = init});
  q_a_layernorm_ = nn::RMSNorm(s / "q_a_layernorm", l.q_rank, kEps);
  q_b_proj_ = nn::Linear(s / "q_b_proj", l.q_rank, queries, {.bias = false, .init = init});
}

// Returns [batch, time, heads, staying + rotating].
Value LatentAttention::queries_of(Value x) const {
  const Value q = q_proj_ ? (*q_proj_)(x) : (*q_b_proj_)((*q_a_layernorm_)((*q_a_proj_)(x)));
  return reshape(
      q, {x.dim(0), x.dim(1), config_.num_attention_heads, design_.latent.staying + design_.latent.rotating});
}

Value LatentAttention::rotated(Value x, const Positions& positions, Value frequencies) const {
  const nn::RotaryEmbedding rotary{.theta = config_.rope_theta, .kind = design_.pairs};
  const Value y = rotary(x, positions.ids, frequencies);
  const nn::RopeScaling& scaling = config_.rope_scaling;
  return scaling.of_scores() == 1 ? y : y * scaling.attention_factor;
}

Value LatentAttention::forward(Value x, const Positions& positions, Value frequencies) const {
  const LatentDesign& l = design_.latent;
  const Value q = queries_of(x), compressed = kv_a_proj_with_mqa_(x);
  const Value kept = kv_a_layernorm_(slice(compressed, 2, 0, l.kv_rank));
  const Value key = rotated(unsqueeze(slice(compressed, 2, l.kv_rank), 2), positions, frequencies);
  const Value keys = concat({unsqueeze(kept, 2), key}, 3);  // [batch, time, 1, kv_rank + rotating]
  const Value matrices =
      reshape(kv_b_proj_.weight.in(*x.graph), {config_.num_attention_heads, l.staying + l.value, l.kv_rank});
  const Value of_keys = slice(matrices, 1, 0, l.staying), of_values = slice(matrices, 1, l.staying);
  const Value staying =
      matmul(transpose(slice(q, 3, 0, l.staying), 1, 2), of_keys);  // [batch, heads, time, kv_rank]
  const Value queries =
      concat({transpose(staying, 1, 2), rotated(slice(q, 3, l.staying), positions, frequencies)}, 3);
  // The rotating part of what is added up has no use.
  const Value sums = cache_.attend(queries, keys, keys, positions, {.scale = design_.score_scale});
  const Value values = matmul(transpose(slice(sums, 3, 0, l.kv_rank), 1, 2), of_values, false, true);
  return o_proj_(
      reshape(transpose(values, 1, 2), {x.dim(0), x.dim(1), config_.num_attention_heads * l.value}));
}

}  // namespace genesis::models
