// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre: they split text into words before byte-pair merges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace genesis::models::gguf {

// Steps are applied in order, each within the words of the previous one. kDigits and kGpt2 are steps that `tokenizers` has names
// for, the others are regular expressions.
struct PreTokenizer {
  std::vector<std::string> steps;
  bool normalizes = false;         // NFC comes before the steps
  bool whole_words_first = false;  // a word that is a token needs no merges
  bool begins_text = false;        // the BOS token precedes a text unless the file says otherwise
};

inline constexpr const char* kDigits = "digits";  // splits each digit
inline constexpr const char* kGpt2 = "gpt-2";

// Looks up a pre-tokenizer by its name in GGUF files; null if it is unknown.
const PreTokenizer* find_pre_tokenizer(const std::string& name);
std::vector<std::string> pre_tokenizer_names();

// Returns the "pre_tokenizer" of a tokenizer.json.
nlohmann::ordered_json pre_tokenizer_json(const PreTokenizer& pre_tokenizer);

}  // namespace genesis::models::gguf
