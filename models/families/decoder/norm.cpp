#include "models/families/decoder/norm.h"

#include "builder/genesis.h"

namespace genesis::models {
namespace {

// RMSNorm with the weight 1 + w, in f32 at least, so that a low precision rounds only the result.
class RmsNormFromOne : public nn::Module<RmsNormFromOne> {
 public:
  RmsNormFromOne(const Scope& s, int64_t size, double eps)
      : Module(s), weight_(s.parameter("weight", {size}, init::zeros())), eps_(eps) {}

  Value forward(Value x) const {
    const DType wide = promote(x.dtype(), DType::f32);
    const Value weight = cast(weight_.in(*x.graph), wide) + 1;
    return rms_norm(x, weight, eps_);
  }

 private:
  Parameter weight_;
  double eps_;
};

// Normalizes without weights, then multiplies each head with its own.
class OwnNorms : public nn::Module<OwnNorms> {
 public:
  OwnNorms(const Scope& s, int64_t heads, int64_t head_size, bool is_rms, double eps)
      : Module(s),
        weight_(s.parameter("weight", {heads, head_size}, init::ones())),
        is_rms_(is_rms),
        eps_(eps) {}

  Value forward(Value x) const {
    const Value normed = is_rms_ ? rms_norm(x, {}, eps_, 1) : layer_norm(x, {}, {}, eps_, 1);
    return normed * weight_.in(*x.graph);
  }

 private:
  Parameter weight_;
  bool is_rms_;
  double eps_;
};

}  // namespace

nn::Layer make_norm(const Scope& s, int64_t size, NormKind kind, double eps) {
  switch (kind) {
    case NormKind::kRms:
      return nn::RMSNorm(s, size, eps);
    case NormKind::kRmsFromOne:
      return RmsNormFromOne(s, size, eps);
    case NormKind::kLayer:
      return nn::LayerNorm(s, size, eps);
    case NormKind::kLayerWithoutBias:
      return nn::LayerNorm(s, size, eps, true, false);
    case NormKind::kLayerWithoutWeights:
      return nn::LayerNorm(s, size, eps, false);
  }
  fail("no norm of kind {}", static_cast<int>(kind));
}

nn::Layer make_own_norms(const Scope& s, int64_t heads, int64_t head_size, NormKind kind, double eps) {
  if (kind != NormKind::kRms && kind != NormKind::kLayerWithoutBias)
    fail("no norm with own weights for each head of kind {}", static_cast<int>(kind));
  return OwnNorms(s, heads, head_size, kind == NormKind::kRms, eps);
}

}  // namespace genesis::models
