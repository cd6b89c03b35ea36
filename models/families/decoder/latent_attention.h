// The attention of DeepSeek-V2 and V3 (multi-head latent attention): keys and values of all heads are products of one short vector
// per token, and the cache holds these vectors alone.
#pragma once

#include <optional>

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// Queries and results are moved through the products of keys and values, so that a head attends to the vectors themselves: the
// scores of a head are those of its queries times its matrix, and its result is what its other matrix makes of the weighted sum.
class LatentAttention : public nn::Module<LatentAttention> {
 public:
  LatentAttention(const Scope& scope, const DecoderConfig& config, const LayerDesign& design,
                  const init::Init& init);
  // x is [batch, time, hidden_size]. `frequencies` are those of the model's scaled rotation, or empty.
  Value forward(Value x, const Positions& positions, Value frequencies) const;

 private:
  Value queries_of(Value x) const;
  Value rotated(Value x, const Positions& positions, Value frequencies) const;

  DecoderConfig config_;
  LayerDesign design_;
  std::optional<nn::Linear> q_proj_, q_a_proj_, q_b_proj_;
  std::optional<nn::RMSNorm> q_a_layernorm_;
  nn::Linear kv_a_proj_with_mqa_, kv_b_proj_, o_proj_;
  nn::RMSNorm kv_a_layernorm_;
  KeyValueCache cache_;
};

}  // namespace genesis::models
