// A tokenizer learnt from text files. Its tokens and merges are those that the library `tokenizers` gives for the same
// files, whatever the number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/tokenizer/training/bpe_trainer.h"
#include "schema/messages/progress.h"

namespace genesis::text {

struct TokenizerOptions {
  BpeOptions bpe;
  std::string pattern = "gpt2";  // gpt2, llama3, qwen2, or a split expression
};

struct TrainedTokenizer {
  std::string json;  // a tokenizer.json
  int64_t tokens = 0, merges = 0;
  int64_t words = 0;  // that differ
  int64_t bytes = 0;  // of text
};

struct TokenizerProgress {
  OnProgress counting;                            // bytes of text
  std::function<void(int64_t, int64_t)> merging;  // tokens
};

// Texts are counted line by line, their line feeds included, so that no token reaches beyond the first line feed; of .jsonl
// files, whose lines are objects with a text "text", these texts are counted as they are. What is not UTF-8 becomes U+FFFD first. Files are mapped; what is kept in memory is each word once. Throws Error for a pattern
// that cannot be used, a special token that is empty or given twice, a vocabulary too small, and a line that is no
// such object (FILE:LINE).
TrainedTokenizer train_tokenizer(const std::vector<std::filesystem::path>& files,
                                 const TokenizerOptions& options, const TokenizerProgress& progress = {});

}  // namespace genesis::text
