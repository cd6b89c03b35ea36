// Entry points that choose the next token where the model runs, made from `prefill` and `decode` of a language model:
//
//   fill_cache          tokens i64[1,seq], position i64[] -> nothing                     what prefill does, without its logits
//   prefill_and_sample  tokens i64[1,seq], position i64[], last i64[] -> token i64[1]    the one behind tokens[0,last]; what
//                       stands behind `last` is only there to make up the size
//   decode_and_sample   -> token i64[1]
//
// A step of decode_and_sample has no inputs: what it reads are states, and what the next step needs it writes there, as
// prefill_and_sample does for the first.
//
//   sampling.token     i64[1]  the token to be read; the step replaces it by the one that it chooses
//   sampling.rng       i64[2]  {seed, position of the last token that is read}; a step moves the position on by one.
//                              Every token is drawn by its seed and position, so that a text that is rewound draws the same
//                              again
//   sampling.temperature f32[], sampling.top_k i64[], sampling.top_p f32[], sampling.min_p f32[]
//
// For the options that cost time both have entry points with names of their own:
//
//   penalties          reads sampling.penalties f32[3] {repetition, presence, frequency}, sampling.in_prompt and
//                      sampling.chosen, both i32[vocab] (models/text/penalties.h). The step counts the token that it
//                      chooses
//   logprobs           -> logprob f32[1] of the token, top_tokens i64[1,k] and top_logprobs f32[1,k], k = kMaxTopLogprobs
//                      or the whole vocabulary
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
inline constexpr const char* kFillCache = "fill_cache";

// A copy of the model with these entry points, which shares its weights; the model itself where it has them. Throws
// Error where it has no `prefill` and `decode` of one row.
std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model);

}  // namespace genesis::text
