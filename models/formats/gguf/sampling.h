// Converts the sampling settings of a GGUF file to the generation_config.json that a folder of transformers has.
#pragma once

#include <string>

#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns temperature, top_k, top_p, min_p and repetition_penalty from the file's general.sampling.*. A file without any of them
// gets llama.cpp's defaults, with which llama.cpp would run it, and a member "_defaults_of" that says so. Stop tokens are in
// config.json.
std::string generation_config_json(const Gguf& gguf);

}  // namespace genesis::models::gguf
