// The settings that decide how a token is chosen: as flags of `genesis-run generate` and `chat`, and by name in a chat.
#pragma once

#include <string>
#include <vector>

#include "models/text/generate_options.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// One of them, by the name that generation_config.json has: "top_k". Its flag is --top-k.
struct SamplingSetting {
  std::string name, text;  // and its value
  bool is_off;             // the value changes nothing
};

// In the order of the flags.
std::vector<SamplingSetting> sampling_settings(const text::GenerateOptions& options);
// Sets one by its name, for which "top_k", "top-k" and "--top-k" will do, from text; "max_tokens" is one here too. Throws Error
// that names it where there is none of this name or the value is out of range.
void set_sampling(text::GenerateOptions& options, const std::string& name, const std::string& value);
// "top_k" of "--top-k".
std::string setting_name(const std::string& flag);

// --temperature and its kin, with what stands in `options` as defaults.
void add_sampling(Command& command, text::GenerateOptions& options);
// Into `options`, what was given of them on the command line.
void take_given_sampling(const Command& command, const text::GenerateOptions& given,
                         text::GenerateOptions& options);
// --prefill-chunk, which check_prefill_chunk() holds to be a power of two.
void add_prefill_chunk(Command& command, int64_t& tokens);
void check_prefill_chunk(int64_t tokens);
// --context; 0 where it is not given.
void add_context(Command& command, int64_t& positions);
// Throws UsageError where a --temperature 0 on the command line makes others of them do nothing.
void check_sampling(const Command& command, const text::GenerateOptions& given);
// Warns where the model's own settings, which `place` holds, always take the likeliest token, so that flags do nothing.
void warn_of_greedy_settings(const Command& command, const text::GenerateOptions& options,
                             const std::string& place);

}  // namespace genesis::tools
