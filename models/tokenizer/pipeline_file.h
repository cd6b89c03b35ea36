// The parts of a tokenizer.json that are steps in their order, "normalizer", "pre_tokenizer" and "decoder", as plain
// descriptions. Used by tokenizer_file.cpp.
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
  // Throws Error that says all of it, where there is any.
  void check() const;

 private:
  std::vector<std::string> refused_;
  size_t more_ = 0;
};

// A Sequence is its parts, which may be sequences, too. Null is no steps.
std::vector<NormalizerStep> normalizer_steps(const nlohmann::json& part, Refusals& refusals);
std::vector<PreTokenizerStep> pre_tokenizer_steps(const nlohmann::json& part, Refusals& refusals);
std::vector<DecoderStep> decoder_steps(const nlohmann::json& part, Refusals& refusals);

}  // namespace genesis::text
