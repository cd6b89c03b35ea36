// Log-probabilities of tokens as JSON of OpenAI's chat API.
#pragma once

#include <span>

#include "models/serving/language_model.h"

namespace genesis::serving {

// JSON has no infinity: this stands for the log-probability of what cannot be.
inline constexpr double kMinLogprob = -9999;

// Returns a list with the token, its log-probability, its bytes and the likeliest tokens of each.
Json logprobs_json(const LanguageModel& model, std::span<const text::TokenLogprob> logprobs);

}  // namespace genesis::serving
