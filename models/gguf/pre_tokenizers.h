// How the tokenizers that GGUF files name in tokenizer.ggml.pre cut text into words ahead of byte-pair merges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace genesis::models::gguf {

// One after the other, each within the words of the one before. kDigits and kGpt2 are steps that `tokenizers` has names for,
// the others regular expressions.
struct PreTokenizer {
  std::vector<std::string> steps;
  bool normalizes = false;         // NFC comes first
  bool whole_words_first = false;  // a word that is a token needs no merges
  bool begins_text = false;        // the first token stands ahead of a text unless the file says otherwise
};

inline constexpr const char* kDigits = "digits";  // each by itself
inline constexpr const char* kGpt2 = "gpt-2";

// By the name that files have; null: it is not known.
const PreTokenizer* find_pre_tokenizer(const std::string& name);
std::vector<std::string> pre_tokenizer_names();

// The "pre_tokenizer" of a tokenizer.json.
nlohmann::ordered_json pre_tokenizer_json(const PreTokenizer& pre_tokenizer);

}  // namespace genesis::models::gguf
