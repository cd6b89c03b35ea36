// The options by which an Engine chooses the tokens of a text, and ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "executor/generation/entry_points.h"

namespace genesis::generation {

// Adds `bias` to the logit of the last of these tokens wherever the text, prompt included, ends with those before it: one token
// alone gets the bias always. -infinity: the tokens never follow each other so. (sequence_bias, bad_words_ids and suppress_tokens
// of transformers; logit_bias of OpenAI.)
struct TokenBias {
  std::vector<int64_t> tokens;
  double bias = 0;
  bool operator==(const TokenBias&) const = default;
};

// Settings of a text. They are applied in this order as in transformers: biases, penalties, temperature, top_k, top_p, min_p; but
// typical_p before top_k, as in llama.cpp.
struct SamplingOptions {
  int64_t max_tokens = 100;  // limit of new tokens; 0: only the prompt is read
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  double min_p = 0;          // minimum relative to the highest probability; 0: off
  // Meister and others, "Locally Typical Sampling", 2022: chooses among the tokens whose surprise is the nearest to the expected one,
  // and that make up this probability. 1: off.
  double typical_p = 1.0;
  // Keskar and others, "CTRL", 2019, as in transformers: the logit of every token in the text so far, including the prompt, is
  // divided by the penalty if it is positive, and multiplied if it is negative. 1: off.
  double repetition_penalty = 1;
  // OpenAI's penalties over the tokens that this request has generated: logit -= presence * (count > 0) + frequency * count.
  // 0: off.
  double presence_penalty = 0, frequency_penalty = 0;
  // The choice of a token depends only on the seed, its position in the text, and its logits.
  uint64_t seed = 0;
  std::vector<TokenBias> logit_bias = {};
  // No sequence of this many tokens occurs twice in the text, prompt included; 0: off.
  int64_t no_repeat_ngram_size = 0;
  int64_t min_tokens = 0;  // stop tokens are not chosen before there are this many new tokens
  std::vector<int64_t> stop_tokens = {};
  // The text ends before the first stop string, even if it begins inside of a token. An Engine knows tokens only and passes them
  // over: what makes text of the tokens looks for them (models/generation/answer.h).
  std::vector<std::string> stop_strings = {};
  // Return natural log-probabilities of the model's own logits, before penalties and temperature.
  bool logprobs = false;
  int64_t top_logprobs = 0;  // most likely tokens to return per token, up to kMaxTopLogprobs
  // Adds to `bias`, one number per token of the vocabulary, -infinity for each token that must not follow the tokens `chosen` that
  // this request has generated so far. At least one token must remain. Called in the thread of the engine; must not throw. Empty:
  // every token may follow.
  std::function<void(std::span<const int64_t> chosen, std::span<float> bias)> constraint = {};
};
inline constexpr int64_t kMaxTopLogprobs = 20;

// Throws Error naming the first option that is out of range.
void check_options(const SamplingOptions& options);
// Throws Error naming the first token of the options that a model with `vocabulary` tokens does not have. Stop tokens need no place
// in it.
void check_tokens(const SamplingOptions& options, int64_t vocabulary);

// Returns the features of the entry points that choose tokens with these options.
SamplingFeatures features_of(const SamplingOptions& options);

}  // namespace genesis::generation
