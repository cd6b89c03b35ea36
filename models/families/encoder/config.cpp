#include "models/families/encoder/config.h"

#include "builder/genesis.h"
#include "models/config_sizes.h"

namespace genesis::models {

void check_encoder(const std::string& family, const EncoderConfig& c) {
  check_size(family, "vocab_size", c.vocab_size);
  check_size(family, "hidden_size", c.hidden_size);
  check_size(family, "intermediate_size", c.intermediate_size);
  check_size(family, "num_hidden_layers", c.num_hidden_layers, kMaxLayers);
  check_size(family, "num_attention_heads", c.num_attention_heads, kMaxHeads);
  check_size(family, "max_position_embeddings", c.max_position_embeddings);
  check_size(family, "num_labels", c.num_labels);
  if (c.hidden_act == Activation::kNone)
    fail("{}: hidden_act is none, expected relu, gelu, gelu_tanh or silu", family);
  if (!(c.layer_norm_eps >= 0))
    fail("{}: layer_norm_eps is {}, it must not be negative", family, c.layer_norm_eps);
  if (!(c.initializer_range >= 0))
    fail("{}: initializer_range is {}, it must not be negative", family, c.initializer_range);
  if (c.hidden_size % c.num_attention_heads != 0)
    fail("{}: hidden_size {} is not a multiple of num_attention_heads {}", family, c.hidden_size,
         c.num_attention_heads);
}

Value activated(Value x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return relu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu(x, GeluKind::kTanh);
    case Activation::kSilu:
      return silu(x);
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace genesis::models
