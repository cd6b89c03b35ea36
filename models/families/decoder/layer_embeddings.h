// Embeddings of each layer (Gemma 3n, Gemma 4): beside the stream, each token has a short vector for every layer. It is the mean of
// a row of a table, which the token chooses, and of a product of the token's embedding.
#pragma once

#include "builder/genesis.h"
#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

class LayerEmbeddings : public nn::Module<LayerEmbeddings> {
 public:
  LayerEmbeddings(const Scope& scope, const DecoderConfig& config, const NetworkDesign& network,
                  const init::Init& init);
  // Returns the vectors of all layers, [batch, time, layers, size]. x [batch, time, hidden_size] are the embeddings of the tokens
  // i64[batch, time].
  Value forward(Value x, Value tokens) const;
  // Returns those of one layer, [batch, time, size].
  Value of_layer(Value all, int64_t layer) const;

 private:
  int64_t layers_, size_;
  double scale_;
  nn::Embedding table_;
  nn::Linear projection_;
  nn::Layer norm_;
};

// The product that a layer makes of its vectors: norm(project(gelu(gate(x)) * own)).
class LayerInput {
 public:
  LayerInput(const Scope& scope, const DecoderConfig& config, const NetworkDesign& network,
             const init::Init& init);
  // x is the stream [batch, time, hidden_size], `own` the vectors [batch, time, size].
  Value operator()(Value x, Value own) const;

 private:
  nn::Linear gate_, projection_;
  nn::Layer norm_;
};

}  // namespace genesis::models
