// Reads generation_config.json, the sampling settings that the model's authors recommend, as transformers reads it.
#pragma once

#include <optional>
#include <string>

#include "models/chat/json_config.h"
#include "models/generation/generate_options.h"

namespace genesis::chat {

// Returns the options that generation_config.json asks for: greedy decoding without "do_sample", else temperature, top_k (50 if
// absent), top_p and min_p; also repetition_penalty, no_repeat_ngram_size, min_new_tokens, sequence_bias, bad_words_ids,
// suppress_tokens and stop_strings. Its "eos_token_id" gives the stop tokens, or that of
// config.json if it names none; they are added to those of `without_file`. Throws Error naming a file that is not JSON, and a
// setting that is not a number or out of range.
text::GenerateOptions read_generation_config(const ConfigFiles& files,
                                             const text::GenerateOptions& without_file);

// Says where these options come from: the path of generation_config.json, or "defaults of llama.cpp, as the model came without
// settings" if the file says that nobody chose them for this model (models/formats/gguf/sampling.h). Empty if there is no such file.
// Throws Error as above.
std::optional<std::string> sampling_origin(const ConfigFiles& files);

// Returns warnings, one sentence each that names the file. They report settings of generation_config.json that would change a
// text and are not applied (typical_p, begin_suppress_tokens, num_beams, ...), unless they have a neutral value; and tokens
// of "eos_token_id" that a model with `vocabulary` tokens never writes. Throws Error as read_generation_config() does.
std::vector<std::string> generation_warnings(const ConfigFiles& files, int64_t vocabulary);

}  // namespace genesis::chat
