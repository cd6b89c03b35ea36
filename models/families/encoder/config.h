// The settings of encoders. Those that transformers has too have its names for BERT.
#pragma once

#include <cstdint>
#include <string>

#include "models/encoder.h"
#include "schema/core/dtype.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::models {

// A cross-encoder makes scores of its logits. kDefault: the sigmoid of one label, else the logits.
enum class ScoreActivation : uint8_t { kDefault, kIdentity, kSigmoid };

struct EncoderConfig {
  int64_t vocab_size = 256;
  int64_t hidden_size = 256;
  int64_t intermediate_size = 1024;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t max_position_embeddings = 512;  // rows of the table of positions, or the longest text
  Activation hidden_act = Activation::kGelu;
  EncoderHead head = EncoderHead::kMaskedLm;
  int64_t num_labels = 2;  // classes of a classifier
  ProblemType problem_type = ProblemType::kDefault;
  ScoreActivation score_activation = ScoreActivation::kDefault;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;  // standard deviation of every weight
  DType dtype = DType::f32;

  static void fields(auto& self, auto&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("hidden_size", self.hidden_size);
    visit("intermediate_size", self.intermediate_size);
    visit("num_hidden_layers", self.num_hidden_layers);
    visit("num_attention_heads", self.num_attention_heads);
    visit("max_position_embeddings", self.max_position_embeddings);
    visit("hidden_act", self.hidden_act);
    visit("head", self.head);
    visit("num_labels", self.num_labels);
    visit("problem_type", self.problem_type);
    visit("score_activation", self.score_activation);
    visit("layer_norm_eps", self.layer_norm_eps);
    visit("initializer_range", self.initializer_range);
    visit("dtype", self.dtype);
  }
  int64_t head_size() const { return hidden_size / num_attention_heads; }
};

// Throws Error that names the family and the setting if settings are invalid or contradict each other.
void check_encoder(const std::string& family, const EncoderConfig& config);

// Applies an activation other than kNone.
Value activated(Value x, Activation activation);

}  // namespace genesis::models

namespace genesis {

template <>
struct EnumNames<models::ScoreActivation> {
  static constexpr std::string_view names[] = {"default", "identity", "sigmoid"};
};

}  // namespace genesis
