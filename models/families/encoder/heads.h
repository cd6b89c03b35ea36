// The heads of encoders like BERT.
#pragma once

#include <optional>

#include "builder/genesis.h"
#include "models/families/encoder/config.h"
#include "models/families/encoder/design.h"

namespace genesis::models {

// dense and tanh of the first token: [batch, seq, features] -> [batch, features].
class Pooler : public nn::Module<Pooler> {
 public:
  Pooler(const Scope& scope, int64_t features, const init::Init& init);
  Value forward(Value hidden) const;

 private:
  nn::Linear dense_;
};

// Returns the first token of each text: [batch, seq, features] -> [batch, features].
Value first_tokens(Value hidden);

// The logits of masked tokens: product(norm(activation(dense(x)))) + bias, with the weights of the embedding.
class MaskedLmHead {
 public:
  MaskedLmHead(const Scope& root, const EncoderConfig& config, const EncoderHeadNames& names,
               Parameter embedding, const init::Init& init);
  Value operator()(Value hidden, bool wide) const;

 private:
  Activation activation_;
  nn::Linear dense_;
  nn::LayerNorm norm_;
  nn::Linear decoder_;
  Parameter bias_;
};

class ClassifierHead {
 public:
  // `pooler`: the base model's, if the classifier of texts reads that.
  ClassifierHead(const Scope& root, const EncoderConfig& config, const EncoderHeadNames& names,
                 const std::optional<Pooler>& pooler, const init::Init& init);
  Value operator()(Value hidden, bool wide) const;

 private:
  bool of_texts_;
  std::optional<Pooler> pooler_;
  Value (*activation_)(Value);
  std::optional<nn::Linear> dense_;
  nn::Linear classifier_;
};

}  // namespace genesis::models
