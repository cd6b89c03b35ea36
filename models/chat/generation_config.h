// generation_config.json, which says how a model's makers sample from it, as transformers reads it.
#pragma once

#include <optional>
#include <string>

#include "models/chat/json_config.h"
#include "models/text/generate_options.h"

namespace genesis::chat {

// Options with what generation_config.json asks for: without "do_sample" the likeliest token, else temperature,
// top_k (50 where it is not there), top_p and min_p; repetition_penalty; stop_strings. Stop tokens are "eos_token_id" of it,
// where it names none those of config.json, beside what `without_file` has. Throws Error naming a file that is no JSON
// and a setting that is no number, or out of range.
text::GenerateOptions read_generation_config(const ConfigFiles& files,
                                             const text::GenerateOptions& without_file);

// Where those options come from, in words: the place of generation_config.json; "the defaults of llama.cpp" where it says that
// they are nobody's choice for this model (models/gguf/sampling.h). Nothing where there is no such file. Throws Error as above.
std::optional<std::string> sampling_origin(const ConfigFiles& files);

// Warnings about the makers' settings, a sentence each that names the file: settings of generation_config.json that
// would change a text and are not applied (no_repeat_ngram_size, suppress_tokens, num_beams, ...), where they are not at values
// that change nothing; and tokens of "eos_token_id" that a model of `vocabulary` tokens never writes. Throws Error as
// read_generation_config() does.
std::vector<std::string> generation_warnings(const ConfigFiles& files, int64_t vocabulary);

}  // namespace genesis::chat
