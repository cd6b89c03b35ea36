// The settings that choose a token as flags of `genesis-run generate` and `chat`.
#pragma once

#include <string>

#include "models/text/sampling_settings.h"
#include "models/text/text_model.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// Adds --temperature and the other flags, with the values in `options` as defaults.
void add_sampling(Command& command, text::GenerateOptions& options);
// Returns the settings that were given on the command line, --max-tokens among them.
text::GenerateSettings given_sampling(const Command& command, const text::GenerateOptions& given);
// Adds --logit-bias, whose values logit_bias_of() reads: the number or the text of a token, '=', and what is added to its logit, or
// -inf. It throws UsageError for a text that is not one token, a token that the model does not have, and a value out of range.
void add_logit_bias(Command& command, std::vector<std::string>& words);
std::vector<text::TokenBias> logit_bias_of(const std::vector<std::string>& words,
                                           const text::TextModel& model);
// Adds --draft and --draft-tokens.
void add_drafts(Command& command, text::TextOptions& options);
// Adds --prefill-chunk, a power of two.
void add_prefill_chunk(Command& command, int64_t& tokens);
// Adds --context; `positions` is 0 if it is not given.
void add_context(Command& command, int64_t& positions);
// Adds --cache-dtype, of which the only value is q8. `dtype` is empty if it is not given.
void add_cache_dtype(Command& command, std::string& dtype, const std::string& help);
// Throws UsageError if --temperature 0 on the command line makes other given flags do nothing.
void check_sampling(const Command& command, const text::GenerateOptions& given);
// Warns if the model's own settings, which are in the file `place`, always take the likeliest token, so that flags do
// nothing.
void warn_of_greedy_settings(const Command& command, const text::GenerateOptions& options,
                             const std::string& place);

}  // namespace genesis::tools
