#include "models/families/encoder/heads.h"

namespace genesis::models {

Pooler::Pooler(const Scope& s, int64_t features, const init::Init& init)
    : Module(s), dense_(s / "dense", features, features, {.init = init}) {}

Value Pooler::forward(Value hidden) const { return tanh(dense_(first_tokens(hidden))); }

Value first_tokens(Value hidden) { return reshape(slice(hidden, 1, 0, 1), {hidden.dim(0), hidden.dim(2)}); }

MaskedLmHead::MaskedLmHead(const Scope& root, const EncoderConfig& c, const EncoderHeadNames& names,
                           Parameter embedding, const init::Init& init)
    : activation_(names.mlm_has_gelu ? Activation::kGelu : c.hidden_act),
      dense_(root / names.mlm_dense, c.hidden_size, c.hidden_size, {.init = init}),
      norm_(root / names.mlm_norm, c.hidden_size, c.layer_norm_eps),
      decoder_(root / names.mlm_bias / "decoder", c.hidden_size, c.vocab_size,
               {.bias = false, .weight = embedding}),
      bias_((root / names.mlm_bias).parameter("bias", {c.vocab_size}, init::zeros())) {}

Value MaskedLmHead::operator()(Value hidden, bool wide) const {
  const Value logits = decoder_(norm_(activated(dense_(hidden), activation_)), wide);
  return logits + cast(bias_.in(*hidden.graph), logits.dtype());
}

ClassifierHead::ClassifierHead(const Scope& root, const EncoderConfig& c, const EncoderHeadNames& names,
                               const std::optional<Pooler>& pooler, const init::Init& init)
    : of_texts_(c.head == EncoderHead::kSequence),
      pooler_(of_texts_ ? pooler : std::nullopt),
      activation_(names.activation),
      // The names of the two layers differ only in classifiers of texts with a layer `dense`.
      classifier_(root / (of_texts_ ? names.classifier : "classifier"), c.hidden_size, c.num_labels,
                  {.init = init}) {
  if (of_texts_ && names.dense)
    dense_.emplace(root / names.dense, c.hidden_size, c.hidden_size, nn::Linear::Options{.init = init});
}

Value ClassifierHead::operator()(Value hidden, bool wide) const {
  if (!of_texts_) return classifier_(hidden, wide);
  if (pooler_) return classifier_((*pooler_)(hidden), wide);
  const Value first = first_tokens(hidden);
  return classifier_(dense_ ? activation_((*dense_)(first)) : first, wide);
}

}  // namespace genesis::models
