// Entry points that choose the next tokens where the model runs, made from `prefill` and `decode` of a language model
// whose KV cache has one row or several (models/decoder.h):
//
//   fill_cache          what prefill takes -> nothing            what prefill does, without its logits
//   fill_row            what prefill_row takes -> nothing        the same of one row of several
//   decode_and_sample   -> token i64[rows]
//   prefill_and_sample  tokens i64[1,seq], position i64[], last i64[] -> token i64[1]    the one behind tokens[0,last]; what
//                       stands behind `last` is only there to make up the size. Of one row only
//
// A step of decode_and_sample has no inputs: what it reads are states, and what the next step needs it writes there, as
// prefill_and_sample does for the first.
//
//   sampling.token     i64[rows]  the tokens to be read; the step replaces them by those that it chooses
//   sampling.rng       i64[2] or [2,rows]  seed, and position of the last token that is read; a step moves the position on
//                              by one. Every token is drawn by its seed and position, so that a text that is rewound draws
//                              the same again, and a row what it draws alone
//   sampling.temperature f32, sampling.top_k i64, sampling.top_p f32, sampling.min_p f32    [] or [rows]
//
// Where there are several rows, some may rest while others go on:
//
//   sampling.remaining i64[rows]  tokens that the row has still to choose. When none is left it rests: each step reads the
//                              token that it stands at again, at the same position, which changes nothing, and what the
//                              step says of the row means nothing
//   sampling.stops     i64[rows,kStopsOfRow]  tokens that put the row to rest; -1: none
//
// For the options that cost time both have entry points with names of their own:
//
//   penalties          reads sampling.penalties f32[3,rows] {repetition, presence, frequency}, sampling.in_prompt and
//                      sampling.chosen, both i32[rows * vocab] (models/text/penalties.h). The step counts the tokens that it
//                      chooses
//   logprobs           -> logprob f32[rows] of the tokens, top_tokens i64[rows,k] and top_logprobs f32[rows,k],
//                      k = kMaxTopLogprobs or the whole vocabulary
//
// All of these states are caches: no file has them. Where prefill does not take the rows of its last token in one slice,
// there is no prefill_and_sample.
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

// Texts that the KV cache of a language model holds side by side, and tokens of each. Throws Error where the model has no
// `decode`.
int64_t rows_of_cache(const Model& model);
int64_t positions_of_cache(const Model& model);
// Whether what reads a prompt has to know how long the whole of it is (models/decoder.h).
bool takes_text_length(const Model& model);

// A copy of the model with these entry points, which shares its weights; the model itself where it has them. Throws
// Error where its `prefill` and `decode` are not those of models/decoder.h.
std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model);

}  // namespace genesis::text
