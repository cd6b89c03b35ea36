// The contract between an Engine (executor/generation/engine.h) and the model that it runs: entry points and states by name. A
// decoder-only language model with a KV cache of one row or several has `prefill` and `decode`; models/decoder.h adds them to a
// graph. models/generation/sampling_entries.h makes the entry points of this page from them.
//
// One row. `position` is the number of tokens that the cache already holds:
//
//   fill_cache          tokens i64[1,seq], position i64[] -> nothing    reads tokens into the cache
//   prefill_and_sample  tokens i64[1,seq], position i64[], last i64[] -> token i64[1]    reads them and chooses the token that
//                       follows tokens[0,last]; tokens behind `last` are padding. Optional
//   decode_and_sample   -> token i64[1]
//
// Several rows, each with its own text:
//
//   fill_cache          tokens i64[rows,seq], position i64[rows], length i64[rows] -> nothing    a row is padded behind its
//                       `length` tokens with arbitrary tokens, and a row of length 0 leaves its cache unchanged
//   fill_row            tokens i64[1,seq], position i64[1], length i64[1], row i64[] -> nothing    does the same for one row and
//                       reads no other. Optional
//   fill_packed         tokens i64[1,seq], position i64[1,seq], first i64[1,seq], begin i64[K], length i64[K], place i64[K] -> nothing,
//                       K = kPackedTexts    reads the beginnings of several texts, one behind the other in `tokens`, into rows that
//                       hold nothing else. `first` is the index of the first token of each token's text. Text i stands at begin[i]
//                       and has length[i] tokens, 0 if there are fewer texts; place[i] is its row's number times the cache's positions.
//                       Optional
//   decode_and_sample   -> token i64[rows]
//   copy_row            from i64[], to i64[] -> nothing    gives a row of the cache what another one holds
//   decode              tokens i64[rows,1], position i64[rows] -> logits [rows,vocab]    finds the rows whose logits are NaN
//
// A model that verifies drafts (executor/generation/speculation.h) has one more entry point for each number of tokens, 2 to
// kMaxVerified:
//
//   verify_N            tokens i64[rows,N], position i64[rows], length i64[rows] -> token i64[rows,N]    reads tokens like
//                       fill_cache and returns the token that decode_and_sample would choose behind each of them: on the CPU
//                       the same bit for bit. It reads the settings of decode_and_sample, and writes no state but the cache.
//                       Tokens behind `length` are padding: their results mean nothing, and with one row they are written to
//                       the cache, too.
//
// If rotary frequencies depend on the length of the text, `fill_cache`, `fill_row` and `prefill_and_sample` take one more input:
// text_length i64[] or [rows], the number of tokens of the whole prompt, of which `tokens` is one chunk. The model's `prefill`
// has that input then, too.
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
// Options that cost time have entry points of their own (SamplingFeatures):
//
//   penalties          reads sampling.penalties f32[3,rows] {repetition, presence, frequency}, sampling.bias f32[rows * vocab],
//                      which is added to the logits before, and sampling.in_prompt and sampling.chosen, both
//                      i32[rows * vocab], which count the tokens of a text. The step counts the tokens that it chooses
//   typical            the same, and reads sampling.typical_p f32[rows]
//   logprobs           -> logprob f32[rows] of the tokens, top_tokens i64[rows,k] and top_logprobs f32[rows,k],
//                      k = kMaxTopLogprobs or the whole vocabulary
//
// A model with adapters (models/generation/adapter_entries.h) reads one more state in all of these entry points:
//
//   generation.adapters i64[rows]  the adapter of each row, from 1; 0: the base model alone
//
// All of these states are caches, which are not stored in files. A run fails if a position is beyond the end of the cache, or if
// a logit is NaN.
#pragma once

#include <string>

#include "schema/graph/graph.h"
#include "schema/graph/model.h"

namespace genesis::generation {

struct SamplingFeatures {
  bool penalties = false, logprobs = false;
  bool typical = false;  // with penalties, and only in decode_and_sample
  bool operator==(const SamplingFeatures&) const = default;
};
std::string prefill_name(const SamplingFeatures& features);
std::string decode_name(const SamplingFeatures& features);
std::string verify_name(int64_t tokens);  // "verify_4"
// Returns what is behind the name of decode_and_sample when a step has the first rows only: "_first_64".
std::string first_rows_suffix(int64_t rows);
inline constexpr const char *kFillCache = "fill_cache", *kFillRow = "fill_row", *kFillPacked = "fill_packed",
                            *kCopyRow = "copy_row";
inline constexpr int64_t kPackedTexts = 12;                      // texts that a run of fill_packed can read
inline constexpr const char* kAdapters = "generation.adapters";  // also the metadata with their number
inline constexpr int64_t kMaxVerified = 16;  // tokens of the largest verify_N; N is a power of two
inline constexpr int64_t kStopsOfRow = 8;

// Return the number of texts that the KV cache of a language model holds, and the number of tokens of each, as its states declare
// (schema/graph/caches.h). A model without caches has as many rows as `decode`, and any number of positions. rows_of_cache() throws
// Error if the model has no `decode`.
int64_t rows_of_cache(const Model& model);
int64_t positions_of_cache(const Model& model);
// Returns the number of adapters that a row can choose from; 0 for a model without them.
int64_t adapters_of(const Model& model);
// Returns true if prefill needs the length of the whole prompt. Throws Error if the model has no `prefill`.
bool takes_text_length(const Model& model);

// Returns the last dimension of the output "logits" of an entry point: [rows, vocabulary] for prefill and decode, [batch, seq,
// vocabulary] for forward. Throws Error if there is no such output of this rank.
int64_t vocabulary_of(const Graph& entry, int rank);

// Returns the entry point. Throws Error if the model lacks it and therefore cannot generate text.
const Graph& found_entry(const Model& model, const char* name);

}  // namespace genesis::generation
