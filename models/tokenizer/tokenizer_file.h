// The contents of a tokenizer.json of Hugging Face's `tokenizers`, for BPE models.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/decoder.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/pre_tokenizer_step.h"

namespace genesis::text {

struct TokenizerFile {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  BpeModel model;                       // its vocabulary without the added tokens that are only that
  std::vector<AddedToken> added;        // in the order of the file, each content once
  std::vector<int64_t> prefix, suffix;  // special tokens around every text
  std::vector<DecoderStep> decoder;
  bool has_decoder = false;  // without one, decoded tokens have a space between them
};

// "truncation" and "padding" are passed over, as transformers does: they are what a text was last prepared for, by whoever
// saved the file. Throws Error: what is wrong, or all that the file asks for and is not supported.
TokenizerFile parse_tokenizer_file(std::string_view json);

}  // namespace genesis::text
