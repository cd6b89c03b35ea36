// How a GGUF file's makers sample from it, as the generation_config.json that a folder of transformers has.
#pragma once

#include <string>

#include "schema/file/foreign/gguf.h"

namespace genesis::models::gguf {

// The temperature, top_k, top_p, min_p and repetition_penalty that the file has as general.sampling.*. A file that has none of
// them gets llama.cpp's defaults, which everybody who runs it there samples with, and a member "_defaults_of" that says so.
// The tokens that end a text are those of config.json.
std::string generation_config_json(const Gguf& gguf);

}  // namespace genesis::models::gguf
