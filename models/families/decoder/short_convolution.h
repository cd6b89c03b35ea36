// Convolutions of each feature over the last few tokens, and the mixer of LFM2's layers without attention.
#pragma once

#include <optional>

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"
#include "models/token_caches.h"

namespace genesis::models {

// A convolution over the last `taps` tokens of each feature, with a cache of its inputs: all of them, or the last ones alone.
class TokenConvolution : public nn::Module<TokenConvolution> {
 public:
  TokenConvolution(const Scope& scope, const CacheSize& size, int64_t features,
                   const ConvolutionDesign& design, const init::Init& init);
  // u is [batch, time, features]. Texts of a row do not see each other.
  Value forward(Value u, const Positions& positions) const;

 private:
  int64_t taps_;
  Parameter weight_,
      bias_;  // [features, 1, taps], as PyTorch has it; the last tap is that of the token itself
  std::optional<VectorCache> all_inputs_;
  std::optional<LastVectors> last_inputs_;
};

// out_proj(c * convolution(b * u)), for b, c, u = in_proj(x).
class ShortConvolution : public nn::Module<ShortConvolution> {
 public:
  ShortConvolution(const Scope& scope, const DecoderConfig& config, const ConvolutionDesign& design,
                   const init::Init& init);
  // x is [batch, time, hidden_size]. `frequencies` have no use: the order of tokens shows in the convolution.
  Value forward(Value x, const Positions& positions, Value frequencies) const;

 private:
  nn::Linear in_proj_, out_proj_;
  TokenConvolution convolution_;
};

}  // namespace genesis::models
