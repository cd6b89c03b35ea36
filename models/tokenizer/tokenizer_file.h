// What a tokenizer.json of Hugging Face's `tokenizers` says, as far as byte-level BPE goes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/split_expression.h"

namespace genesis::text {

struct TokenizerFile {
  bool normalizes = false;              // to NFC
  std::vector<SplitExpression> splits;  // one after the other
  std::optional<size_t>
      prefix_space;       // in front of which of `splits` a piece that begins with no space gets one
  Vocabulary vocabulary;  // without the added tokens that are only that
  std::vector<Merge> merges;
  bool whole_words_first = false;
  std::vector<AddedToken> added;        // in the order of the file
  std::vector<int64_t> prefix, suffix;  // special tokens around every text
};

// "truncation" and "padding" are passed over, as transformers does: they are what a text was last prepared for, by whoever
// saved the file. Throws Error: what is wrong, or all that the file asks for and is not supported.
TokenizerFile parse_tokenizer_file(std::string_view json);

}  // namespace genesis::text
