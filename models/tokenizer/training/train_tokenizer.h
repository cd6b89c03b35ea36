// Learns a tokenizer from text files. Its tokens and merges are those that the library `tokenizers` learns from the same files,
// for any number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/tokenizer/training/bpe_trainer.h"
#include "schema/messages/progress.h"

namespace genesis::text {

struct TokenizerOptions {
  BpeOptions bpe;
  std::string pattern = "gpt2";  // gpt2, llama3, qwen2, smollm, or a split expression
};

struct TrainedTokenizer {
  std::string json;  // a tokenizer.json
  int64_t tokens = 0, merges = 0;
  int64_t words = 0;  // distinct words
  int64_t bytes = 0;  // bytes of text
};

struct TokenizerProgress {
  OnProgress counting;                            // reports bytes of text
  std::function<void(int64_t, int64_t)> merging;  // reports tokens and vocab_size
};

// Learns a tokenizer. Texts are counted line by line, including the line feeds, so that no token extends beyond the first line
// feed. In .jsonl files, whose lines are objects with a string "text", these texts are counted as they are. Invalid UTF-8 becomes
// U+FFFD first. Files are mapped; memory holds each distinct word once. Throws Error for a pattern that cannot be used, a special
// token that is empty or given twice, a vocabulary that is too small, and an invalid line of a .jsonl file (FILE:LINE).
TrainedTokenizer train_tokenizer(const std::vector<std::filesystem::path>& files,
                                 const TokenizerOptions& options, const TokenizerProgress& progress = {});

}  // namespace genesis::text
