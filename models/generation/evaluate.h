// Measures how well a language model predicts a text: the mean negative log-likelihood of each next token, in nats. The text is
// read in windows of equal length. They overlap, so that every token but the first ones of the text is predicted from at least
// `seq` - `stride` preceding tokens, as https://huggingface.co/docs/transformers/perplexity describes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "executor/session.h"

namespace genesis::text {

struct EvaluateOptions {
  int64_t seq = 512;   // tokens per window
  int64_t stride = 0;  // new tokens per window; 0: half a window
};

struct Evaluation {
  double nats = 0;     // sum over all counted tokens
  int64_t tokens = 0;  // predicted and counted: without `counts`, all but the first of each text
  int64_t windows = 0;

  double loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : 0; }
  double perplexity() const;
  void add(const Evaluation& other);
};

// Evaluates one text with the entry point `loss` if the model has it in f32 and without dropout, else with `forward`. Throws
// Error for texts of less than two tokens, tokens outside of the vocabulary, and options out of range. Calls `on_window` with the
// number of tokens done. `counts` says which tokens count, such as those of an assistant's answers; empty: all.
Evaluation evaluate(Session& session, std::span<const int64_t> tokens, const EvaluateOptions& options,
                    const std::vector<bool>& counts = {},
                    const std::function<void(int64_t done)>& on_window = {});

}  // namespace genesis::text
