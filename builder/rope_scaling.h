// Rotary embeddings for texts longer than those a model was trained on: each pair of a head gets a frequency of its own,
// by a rule that the model's configuration names. What transformers calls rope_scaling, or rope_parameters.
#pragma once

#include <vector>

#include "builder/scope.h"

namespace genesis::nn {

enum class RopeScalingKind : uint8_t {
  kNone,     // theta^(-2i / rotary_size)
  kLinear,   // all divided by `factor` (Chen et al., "Extending context window of large language models via
             // positional interpolation", 2023)
  kDynamic,  // theta grows with the text's length beyond `original_positions` ("NTK-aware" scaling, 2023)
  kLlama3,   // slow ones divided by `factor`, fast ones as they are (Grattafiori et al., "The Llama 3 herd of
             // models", 2024)
  kYarn,     // a ramp between both (Peng et al., "YaRN: efficient context window extension of large language
             // models", 2023)
  kProportional,  // the first `proportion` of the pairs divided by `factor`, the rest do not rotate
};

}  // namespace genesis::nn

namespace genesis {
template <>
struct EnumNames<nn::RopeScalingKind> {
  static constexpr std::string_view names[] = {"none", "linear", "dynamic", "llama3", "yarn", "proportional"};
};
}  // namespace genesis

namespace genesis::nn {

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1;
  int64_t original_positions = 0;  // dynamic, llama3, yarn: length of the texts it was trained on
  double low_freq_factor = 1,
         high_freq_factor = 4;           // llama3: turns within these positions where the ramp begins, ends
  double beta_fast = 32, beta_slow = 1;  // yarn: the same
  bool truncate = true;                  // yarn: the ramp begins and ends at whole pairs
  double attention_factor = 1;           // yarn: of the cosines and sines
  double proportion = 1;                 // proportional

  // With rope_ before each name, as settings of a model.
  static void fields(auto& self, auto&& visit) {
    visit("rope_scaling", self.kind);
    visit("rope_factor", self.factor);
    visit("rope_original_positions", self.original_positions);
    visit("rope_low_freq_factor", self.low_freq_factor);
    visit("rope_high_freq_factor", self.high_freq_factor);
    visit("rope_beta_fast", self.beta_fast);
    visit("rope_beta_slow", self.beta_slow);
    visit("rope_truncate", self.truncate);
    visit("rope_attention_factor", self.attention_factor);
    visit("rope_proportion", self.proportion);
  }
  // Both q and k carry attention_factor where there is one: what scores are to be multiplied with.
  double of_scores() const {
    return kind == RopeScalingKind::kYarn ? attention_factor * attention_factor : 1;
  }
};

// Radians a position of each of the rotary_size / 2 pairs; of kDynamic those of a text of `length` tokens. Throws Error
// naming a setting that is out of range.
std::vector<double> rope_frequencies(double theta, int64_t rotary_size, const RopeScaling& scaling,
                                     int64_t length = 0);

// The frequencies of one model's rotations as operands of rope.
class RopeFrequencies {
 public:
  RopeFrequencies(const Scope& scope, double theta, int64_t rotary_size, const RopeScaling& scaling);
  bool depend_on_length() const { return scaling_.kind == RopeScalingKind::kDynamic; }
  // f64[pairs], or [batch, pairs] where `length` is i64[batch]; empty where theta alone says them. `length`, of the text
  // so far with the tokens at hand, is made only where it matters.
  template <class Length>
  Value in(Graph& graph, const Length& length) const {
    if (scaling_.kind == RopeScalingKind::kNone) return {};
    if (scaling_.kind != RopeScalingKind::kDynamic) return graph.constant(table_);
    return of_length(graph, length());
  }

 private:
  Value of_length(Graph& graph, Value length) const;

  double theta_;
  int64_t rotary_size_;
  RopeScaling scaling_;
  int32_t table_ = -1;  // of the model's tensors: the frequencies; of kDynamic the exponents of theta
};

}  // namespace genesis::nn
