// Computes what a request adds to the logits of its next token: its biases, and minus infinity for tokens that must not follow now.
// The rules are those of transformers' SequenceBiasLogitsProcessor, NoRepeatNGramLogitsProcessor and MinNewTokensLengthLogitsProcessor.
#pragma once

#include <span>

#include "executor/generation/sampling_options.h"

namespace genesis::generation {

// Returns true if the sums differ from token to token of a text, so that each step needs new ones.
bool bias_follows_text(const SamplingOptions& options);

// Adds to `bias`, one number per token of the vocabulary, what the options add after `text`, whose last `taken` tokens are new.
// Tokens outside of the vocabulary count for nothing.
void add_logit_bias(const SamplingOptions& options, std::span<const int64_t> text, int64_t taken,
                    std::span<float> bias);

}  // namespace genesis::generation
