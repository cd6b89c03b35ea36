// Reads the lists of steps in a tokenizer.json, "normalizer", "pre_tokenizer" and "decoder", as descriptions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/tokenizer/decoder.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pre_tokenizer_step.h"

namespace genesis::text {

// Collects the parts of a file that are not supported, each with its path in the JSON.
class Refusals {
 public:
  void add(const std::string& what);
  // Throws Error that lists them, if there are any.
  void check() const;

 private:
  std::vector<std::string> refused_;
  size_t more_ = 0;
};

// These return the steps of a part. A Sequence gives the steps of its parts, recursively; null gives none.
std::vector<NormalizerStep> normalizer_steps(const nlohmann::json& part, Refusals& refusals);
std::vector<PreTokenizerStep> pre_tokenizer_steps(const nlohmann::json& part, Refusals& refusals);
std::vector<DecoderStep> decoder_steps(const nlohmann::json& part, Refusals& refusals);

}  // namespace genesis::text
