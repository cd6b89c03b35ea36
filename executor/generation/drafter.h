// Speculative decoding: something cheap drafts the next tokens of a text, and one run of the model verifies all of them
// (executor/generation/speculation.h). These drafters exist: the text's own repetitions, and a smaller model (model_drafter.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/generation/sampling_options.h"

namespace genesis::generation {

// A row of the cache whose text goes on.
struct DraftRow {
  const std::vector<int64_t>* text = nullptr;  // all its tokens
  const SamplingOptions* options = nullptr;
  int64_t most = 0;    // tokens to draft at most; 0: none
  uint64_t group = 0;  // Request::group
};
using Drafts = std::vector<std::vector<int64_t>>;  // by row

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual void compile() {}  // makes plans that the first draft would make
  // Returns up to `most` tokens for each row, all rows of the cache, always as many as the cache has. A draft may be empty. Wrong
  // drafts cost time and never change a text.
  virtual Drafts draft(std::span<const DraftRow> rows) = 0;
};

struct DraftOptions {
  std::shared_ptr<Drafter> drafter = {};  // empty: each step chooses one token
  int64_t most = 7;                       // tokens of a draft at most, up to kMaxVerified - 1
};

// Drafts what followed the last occurrence of the text's last tokens in the text itself (prompt lookup, Saxena, 2023): for texts
// that repeat their prompt or themselves.
std::shared_ptr<Drafter> make_ngram_drafter();

// Returns that draft; empty if the last two tokens did not occur before.
std::vector<int64_t> repeated_tokens(std::span<const int64_t> text, int64_t most);

}  // namespace genesis::generation
