// The settings that choose a token: as flags of `genesis-run generate` and `chat`, and by name in a chat.
#pragma once

#include <string>
#include <vector>

#include "models/generation/generate_options.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// A setting by its name in generation_config.json: "top_k". Its flag is --top-k.
struct SamplingSetting {
  std::string name, text;  // text: its value
  bool is_off;             // true: the value changes nothing
};

// Returns the settings in the order of the flags.
std::vector<SamplingSetting> sampling_settings(const text::GenerateOptions& options);
// Sets one setting from text. The name may be "top_k", "top-k" or "--top-k"; "max_tokens" is a setting here too.
// Throws Error with the name if there is no such setting or the value is out of range.
void set_sampling(text::GenerateOptions& options, const std::string& name, const std::string& value);
// Returns "top_k" for "--top-k".
std::string setting_name(const std::string& flag);

// Adds --temperature and the other flags, with the values in `options` as defaults.
void add_sampling(Command& command, text::GenerateOptions& options);
// Copies to `options` the settings that were given on the command line.
void take_given_sampling(const Command& command, const text::GenerateOptions& given,
                         text::GenerateOptions& options);
// Adds --prefill-chunk. check_prefill_chunk() throws unless it is a power of two.
void add_prefill_chunk(Command& command, int64_t& tokens);
void check_prefill_chunk(int64_t tokens);
// Adds --context; `positions` is 0 if it is not given.
void add_context(Command& command, int64_t& positions);
// Throws UsageError if --temperature 0 on the command line makes other given flags do nothing.
void check_sampling(const Command& command, const text::GenerateOptions& given);
// Warns if the model's own settings, which are in the file `place`, always take the likeliest token, so that flags do
// nothing.
void warn_of_greedy_settings(const Command& command, const text::GenerateOptions& options,
                             const std::string& place);

}  // namespace genesis::tools
