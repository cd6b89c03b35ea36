#include "models/families/decoder/layer_embeddings.h"

#include <cmath>

#include "models/families/decoder/norm.h"

namespace genesis::models {

LayerEmbeddings::LayerEmbeddings(const Scope& s, const DecoderConfig& c, const NetworkDesign& network,
                                 const init::Init& init)
    : Module(s),
      layers_(c.num_hidden_layers),
      size_(network.layer_embedding_size),
      scale_(1 / std::sqrt(static_cast<double>(c.hidden_size))),
      table_(s / "embed_tokens_per_layer", network.layer_embedding_rows, layers_ * size_, {.init = init}),
      projection_(s / "per_layer_model_projection", c.hidden_size, layers_ * size_,
                  {.bias = false, .init = init}),
      norm_(make_norm(s / "per_layer_projection_norm", size_, network.norm, c.rms_norm_eps)) {}

Value LayerEmbeddings::forward(Value x, Value tokens) const {
  const auto by_layer = [&](Value all) { return reshape(all, {x.dim(0), x.dim(1), layers_, size_}); };
  const Value projected = norm_(by_layer(projection_(x) * scale_));
  const Value looked_up = by_layer(table_(tokens) * std::sqrt(static_cast<double>(size_)));
  return (projected + looked_up) * std::sqrt(0.5);
}

Value LayerEmbeddings::of_layer(Value all, int64_t layer) const {
  return squeeze(slice(all, 2, layer, layer + 1), 2);
}

LayerInput::LayerInput(const Scope& s, const DecoderConfig& c, const NetworkDesign& network,
                       const init::Init& init)
    : gate_(s / "per_layer_input_gate", c.hidden_size, network.layer_embedding_size,
            {.bias = false, .init = init}),
      projection_(s / "per_layer_projection", network.layer_embedding_size, c.hidden_size,
                  {.bias = false, .init = init}),
      norm_(make_norm(s / "post_per_layer_input_norm", c.hidden_size, network.norm, c.rms_norm_eps)) {}

Value LayerInput::operator()(Value x, Value own) const {
  return norm_(projection_(gelu(gate_(x), GeluKind::kTanh) * own));
}

}  // namespace genesis::models
