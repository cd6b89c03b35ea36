// Opens what drafts tokens for a language model, by name (speculative decoding, executor/generation/speculation.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "executor/generation/drafter.h"
#include "executor/session_options.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::text {

// The model that drafts are made for.
struct DraftTarget {
  std::string file;                    // its name, for messages
  std::optional<Tokenizer> tokenizer;  // empty: tokens are bytes
  int64_t vocabulary = 0;
};

// For GeneratorOptions::drafter. `name` is "ngram", for drafts from the text itself, or names a smaller model with the same tokens: a
// .genesis file, or a folder of checkpoints. Its session has the options of the target's. Throws Error if the model has other
// tokens than the target.
std::function<std::shared_ptr<generation::Drafter>(const CacheSize& cache)> draft_source(
    const std::string& name, const DraftTarget& target, SessionOptions session);

}  // namespace genesis::text
