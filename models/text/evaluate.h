// How well a language model foretells a text: the mean negative logarithm of the probability that it gives each next
// token, in nats. The text goes through windows of one length that overlap by what stands before the tokens that count,
// so that every token but the first ones of the text is foretold from at least `seq` - `stride` others, as
// https://huggingface.co/docs/transformers/perplexity describes it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "executor/session.h"

namespace genesis::text {

struct EvaluateOptions {
  int64_t seq = 512;   // tokens of a window
  int64_t stride = 0;  // new tokens of each window; 0: half of it
};

struct Evaluation {
  double nats = 0;     // of all tokens that were foretold
  int64_t tokens = 0;  // foretold and counted: all but the first of each text, where nothing says which count
  int64_t windows = 0;

  double loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : 0; }
  double perplexity() const;
  void add(const Evaluation& other);
};

// Of one text, with the entry point `loss`, where the model has it in f32 and without dropout, else `forward`. Throws
// Error for texts of less than two tokens, tokens that the model has not, and settings out of range. `on_window` is told
// how many tokens are done. `counts`: which tokens count, such as those of an assistant's answers; empty: all.
Evaluation evaluate(Session& session, std::span<const int64_t> tokens, const EvaluateOptions& options,
                    const std::vector<bool>& counts = {},
                    const std::function<void(int64_t done)>& on_window = {});

}  // namespace genesis::text
