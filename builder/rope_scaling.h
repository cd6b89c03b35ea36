// Rotary embeddings for texts longer than those a model was trained on: each pair of elements of a head gets its own frequency,
// by a rule that the model's configuration names. transformers calls this rope_scaling or rope_parameters.
#pragma once

#include <vector>

#include "builder/scope.h"

namespace genesis::nn {

enum class RopeScalingKind : uint8_t {
  kNone,     // theta^(-2i / rotary_size)
  kLinear,   // all divided by `factor` (Chen et al., "Extending context window of large language models via
             // positional interpolation", 2023)
  kDynamic,  // theta grows with the text's length beyond `original_positions` ("NTK-aware" scaling, 2023)
  kLlama3,   // low frequencies divided by `factor`, high ones unchanged (Grattafiori et al., "The Llama 3
             // herd of models", 2024)
  kYarn,     // a ramp between both (Peng et al., "YaRN: efficient context window extension of large language
             // models", 2023)
  kProportional,  // the first `proportion` of the pairs divided by `factor`; the others do not rotate
  kLongRope,  // each pair divided by a factor of its own; texts beyond `original_positions` have other factors (Ding et al.,
              // "LongRoPE: extending LLM context window beyond 2 million tokens", 2024)
};

}  // namespace genesis::nn

namespace genesis {
template <>
struct EnumNames<nn::RopeScalingKind> {
  static constexpr std::string_view names[] = {"none", "linear",       "dynamic", "llama3",
                                               "yarn", "proportional", "longrope"};
};
}  // namespace genesis

namespace genesis::nn {

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1;
  int64_t original_positions =
      0;  // dynamic, llama3, yarn, longrope: length of the texts the model was trained on
  double low_freq_factor = 1,
         high_freq_factor = 4;           // llama3: the ramp lies between these turns per original_positions
  double beta_fast = 32, beta_slow = 1;  // yarn: the same, high end first
  bool truncate = true;                  // yarn: round the ends of the ramp to whole pairs
  double attention_factor = 1;           // yarn, longrope: factor of the cosines and sines
  double proportion = 1;                 // proportional: share of the pairs that rotate
  // longrope: divisor of each pair's frequency, in texts of up to original_positions tokens and in longer ones
  std::vector<double> short_factors = {}, long_factors = {};

  // Visits the fields under their names as settings of a model, which begin with rope_.
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
    visit("rope_short_factors", self.short_factors);
    visit("rope_long_factors", self.long_factors);
  }
  bool has_attention_factor() const {
    return kind == RopeScalingKind::kYarn || kind == RopeScalingKind::kLongRope;
  }
  // Returns true if the frequencies depend on the length of the text.
  bool depends_on_length() const {
    return kind == RopeScalingKind::kDynamic || kind == RopeScalingKind::kLongRope;
  }
  // Returns the factor that attention_factor puts on attention scores; it is squared because q and k both carry it.
  double of_scores() const { return has_attention_factor() ? attention_factor * attention_factor : 1; }
};

// Returns the angle in radians per position of each of the rotary_size / 2 pairs; for kDynamic and kLongRope, the angles of a text of
// `length` tokens. Throws Error naming a setting that is out of range.
std::vector<double> rope_frequencies(double theta, int64_t rotary_size, const RopeScaling& scaling,
                                     int64_t length = 0);

// Provides the frequencies of one model's rotations as operands of rope.
class RopeFrequencies {
 public:
  RopeFrequencies(const Scope& scope, double theta, int64_t rotary_size, const RopeScaling& scaling);
  bool depend_on_length() const { return scaling_.depends_on_length(); }
  // Returns f64[pairs], or f64[batch, pairs] if the length is i64[batch]; empty if theta alone determines the frequencies.
  // `length` is a function that returns the length of the text including the current tokens; it is called only
  // if the frequencies depend on it.
  template <class Length>
  Value in(Graph& graph, const Length& length) const {
    if (scaling_.kind == RopeScalingKind::kNone) return {};
    if (!depend_on_length()) return graph.constant(table_);
    return of_length(graph, length());
  }

 private:
  Value of_length(Graph& graph, Value length) const;

  double theta_;
  int64_t rotary_size_;
  RopeScaling scaling_;
  int32_t table_ = -1;  // index of the model's tensor of frequencies; for kDynamic, of the exponents of theta
  int32_t long_table_ = -1;  // kLongRope: frequencies of long texts
};

}  // namespace genesis::nn
