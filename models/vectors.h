// Vectors of texts: the entry point `embed` of a model, which makes one vector of the features that the model has for the tokens of
// a text, as sentence-transformers does with its modules Pooling, Dense and Normalize.
//
//   embed    tokens i64[batch,seq], lengths i64[batch] -> vectors f32[batch,features]
//
// An encoder that has token_types (models/encoder.h) takes them behind lengths. If pooling leaves out the prompt, the last input is
// prompt_lengths i64[batch]: the number of tokens at the beginning of a text that do not count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::models {

struct VectorSettings {
  // The vector has these parts, one behind the other: cls (of the first token), max, mean, mean_sqrt_len_tokens (the sum divided
  // by the root of the number of tokens), weightedmean (by position) and lasttoken.
  std::vector<std::string> pooling = {"mean"};
  bool pooling_includes_prompt = true;
  // Linear layers behind it: their numbers of results, and identity, tanh, relu, gelu or sigmoid for each.
  std::vector<int64_t> dense_features = {};
  std::vector<std::string> dense_activations = {};
  bool dense_bias = true;
  bool normalize = false;  // vectors get the length 1

  static void fields(auto& self, auto&& visit) {
    visit("pooling", self.pooling);
    visit("pooling_includes_prompt", self.pooling_includes_prompt);
    visit("dense_features", self.dense_features);
    visit("dense_activations", self.dense_activations);
    visit("dense_bias", self.dense_bias);
    visit("normalize", self.normalize);
  }
};

// The names of `pooling`, in the order in which sentence-transformers joins their results.
const std::vector<std::string>& pooling_modes();

// The weight or the bias of a linear layer behind the pooling: "vectors.dense.0.weight". `part` is weight or bias.
std::string dense_state(size_t layer, const std::string& part);
// Returns true for the name of such a state.
bool is_dense_state(const std::string& name);

// Adds the entry point `embed`, or replaces it, and records the settings in the metadata. The features are those of the entry point
// `hidden` of an encoder, or those from which the entry point `forward` of a decoder computes its logits. The states of linear layers
// are created without values. Throws Error if the model has neither, and for settings that contradict each other.
void add_vectors(Model& model, const VectorSettings& settings);

// Returns the settings of a model with vectors; empty for another one.
std::optional<VectorSettings> vectors_of(const Model& model);

}  // namespace genesis::models
