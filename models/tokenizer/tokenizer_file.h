// Reads a tokenizer.json of Hugging Face's `tokenizers`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/decoder.h"
#include "models/tokenizer/model_section.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pre_tokenizer_step.h"

namespace genesis::text {

struct TokenizerFile {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  ModelSection model;                   // without those added tokens that are not in "vocab"
  std::vector<AddedToken> added;        // in the order of the file, without repeated contents
  std::vector<int64_t> prefix, suffix;  // special tokens around every text
  std::vector<DecoderStep> decoder;
  bool has_decoder = false;  // false: decoded tokens are separated by spaces
};

// Ignores "truncation" and "padding", as transformers does: they only record how texts were last prepared before the file was
// saved. Throws Error that says what is invalid, or lists everything that is not supported.
TokenizerFile parse_tokenizer_file(std::string_view json);

}  // namespace genesis::text
