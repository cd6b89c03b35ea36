// The mixer of Mamba2: a selective state space (schema/ops/nn/mamba2.h) behind a short convolution. The tensors have the names of
// transformers.
#pragma once

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"
#include "models/families/decoder/short_convolution.h"
#include "models/token_caches.h"

namespace genesis::models {

class MambaMixer : public nn::Module<MambaMixer> {
 public:
  MambaMixer(const Scope& scope, const DecoderConfig& config, const MambaDesign& design,
             const init::Init& init);
  // x is [batch, time, hidden_size]. `frequencies` have no use: the order of tokens shows in the state.
  Value forward(Value x, const Positions& positions, Value frequencies) const;

 private:
  struct Steps {
    Value decay, size;  // [batch, time, heads], in f32 at least
  };
  Steps steps_of(Value projected, const Positions& positions) const;
  // Returns what the state space computes, [batch, time, features], in f32 at least.
  Value scan(Value convolved, const Steps& steps, const Positions& positions) const;
  // Applies the norm and the factor silu(z), in f32 at least.
  Value gated(Value y, Value z) const;

  MambaDesign design_;
  double eps_;
  nn::Linear in_proj_, out_proj_;
  TokenConvolution conv1d_;
  Parameter dt_bias_, a_log_, d_, norm_;
  RecurrentCache cache_;
};

}  // namespace genesis::models
