// The attention of decoders: projections, norms of heads, rotation and the KV cache.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// The keys and values that the layers of one run saw, in their order, for later layers that read those of an earlier one. Who begins
// a graph clears it.
using KeysOfLayers = std::shared_ptr<std::vector<KeyValueCache::Seen>>;

class SelfAttention : public nn::Module<SelfAttention> {
 public:
  SelfAttention(const Scope& scope, const DecoderConfig& config, const LayerDesign& design,
                const NetworkDesign& network, const init::Init& init, KeysOfLayers keys);
  // x is [batch, time, hidden_size]. `frequencies` are those of the model's scaled rotation, or empty.
  Value forward(Value x, const Positions& positions, Value frequencies) const;

 private:
  using Norm = std::optional<nn::Layer>;
  bool has_keys() const { return design_.keys_of < 0; }
  void add_head_norms(const Scope& scope);
  // Returns the projection as [batch, time, heads, head_size]; applies `norm` if it is one over the whole projection.
  Value heads_of(Value projection, int64_t heads, const Norm& norm) const;
  Value rotated(Value x, const Positions& positions, Value frequencies) const;
  Value with_temperature(Value q, const Positions& positions) const;
  bool has_part_that_stays() const;
  double scale() const;

  DecoderConfig config_;
  LayerDesign design_;
  NetworkDesign network_;
  KeysOfLayers keys_;
  nn::Linear q_proj_;
  std::optional<nn::Linear> k_proj_, v_proj_;
  nn::Linear o_proj_;
  Norm q_norm_, k_norm_;
  Parameter sinks_;
  std::optional<KeyValueCache> cache_;
};

}  // namespace genesis::models
