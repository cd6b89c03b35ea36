// Entry points that choose the next tokens on the device. They are made from `prefill` and `decode` of a language model whose KV
// cache has one row or several (models/decoder.h):
//
//   fill_cache          inputs of prefill -> nothing             does what prefill does, without its logits. With a cache of one
//                       row: tokens i64[1,seq], position i64[] and, where prefill takes it, text_length i64[]; all of tokens
//                       are read
//   fill_row            inputs of prefill_row -> nothing         does the same for one row of several
//   decode_and_sample   -> token i64[rows]
//   prefill_and_sample  tokens i64[1,seq], position i64[], last i64[] -> token i64[1]    the token that follows tokens[0,last];
//                       tokens behind `last` are padding. Only for caches of one row
//
// A step of decode_and_sample has no inputs: it reads states, and writes the states that the next step needs. prefill_and_sample
// writes those for the first step.
//
//   sampling.token     i64[rows]  the tokens to read; the step replaces them by those that it chooses
//   sampling.rng       i64[2] or [2,rows]  the seed, and the position of the last token that is read; a step increments the
//                              position. Every token is drawn by its seed and position, so that a rewound text draws the
//                              same tokens again, and a row draws the same as if it were alone
//   sampling.temperature f32, sampling.top_k i64, sampling.top_p f32, sampling.min_p f32    [] or [rows]
//
// With several rows, some may be idle while others go on:
//
//   sampling.remaining i64[rows]  tokens that the row may still choose. At 0 it is idle: each step reads its current token
//                              again, at the same position, which changes nothing, and its results are meaningless
//   sampling.stops     i64[rows,kStopsOfRow]  tokens after which the row becomes idle; -1: unused
//
// Options that cost time have entry points of their own:
//
//   penalties          reads sampling.penalties f32[3,rows] {repetition, presence, frequency}, sampling.in_prompt and
//                      sampling.chosen, both i32[rows * vocab] (models/generation/penalties.h). The step counts the tokens that
//                      it chooses
//   logprobs           -> logprob f32[rows] of the tokens, top_tokens i64[rows,k] and top_logprobs f32[rows,k],
//                      k = kMaxTopLogprobs or the whole vocabulary
//
// All of these states are caches, which are not stored in files. There is no prefill_and_sample if prefill does not take the rows
// of its last token by exactly one slice.
#pragma once

#include <memory>
#include <string>

#include "schema/graph/model.h"

namespace genesis::text {

struct SamplingFeatures {
  bool penalties = false, logprobs = false;
};
std::string prefill_name(const SamplingFeatures& features);
std::string decode_name(const SamplingFeatures& features);
inline constexpr const char *kFillCache = "fill_cache", *kFillRow = "fill_row";
inline constexpr int64_t kStopsOfRow = 8;

// Return the number of texts that the KV cache of a language model holds, and the number of tokens of each, as its states declare
// (schema/graph/caches.h). A model without caches has as many rows as `decode`, and any number of positions. rows_of_cache() throws
// Error if the model has no `decode`.
int64_t rows_of_cache(const Model& model);
int64_t positions_of_cache(const Model& model);
// Returns true if prefill needs the length of the whole prompt (models/decoder.h).
bool takes_text_length(const Model& model);

// Returns a copy of the model with these entry points, which shares its weights; the model itself if it has them already. Throws
// Error if its `prefill` and `decode` are not those of models/decoder.h.
std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model);

}  // namespace genesis::text
