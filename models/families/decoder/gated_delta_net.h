// The mixer of Qwen3-Next's and Qwen3.5's layers without softmax attention: the gated delta rule (schema/ops/nn/gated_delta.h) behind a short
// convolution.
#pragma once

#include <optional>

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"
#include "models/families/decoder/short_convolution.h"
#include "models/token_caches.h"

namespace genesis::models {

class GatedDeltaNet : public nn::Module<GatedDeltaNet> {
 public:
  GatedDeltaNet(const Scope& scope, const DecoderConfig& config, const DeltaDesign& design,
                const init::Init& init);
  // x is [batch, time, hidden_size]. `frequencies` have no use: the order of tokens shows in the state.
  Value forward(Value x, const Positions& positions, Value frequencies) const;

 private:
  struct Gates {
    Value decay, beta;  // [batch, time, value heads], in f32 at least
  };
  struct Inputs {
    Value mixed;  // [batch, time, 2 * keys + values]: queries, keys and values before the convolution
    Value z;      // [batch, time, value heads, value size]
    Value b, a;   // [batch, time, value heads]
  };
  Inputs inputs_of(Value x) const;
  Gates gates_of(const Inputs& inputs, const Positions& positions) const;
  // Returns `heads` unit vectors per token as [batch, time, value heads, key size], in f32 at least.
  Value units(Value heads) const;

  DeltaDesign design_;
  double eps_;
  std::optional<nn::Linear> in_proj_qkvz_, in_proj_ba_, in_proj_qkv_, in_proj_z_, in_proj_b_, in_proj_a_;
  nn::Linear out_proj_;
  TokenConvolution conv1d_;
  Parameter dt_bias_, a_log_, norm_;
  RecurrentCache cache_;
};

}  // namespace genesis::models
