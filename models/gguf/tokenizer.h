// The tokenizer that a GGUF file has in its metadata, as the files of Hugging Face that models/tokenizer reads.
#pragma once

#include <string>

#include "schema/file/foreign/gguf.h"

namespace genesis::models::gguf {

// A tokenizer.json: byte-level BPE (tokenizer.ggml.model is "gpt2") that cuts words in one of the ways of pre_tokenizers.h
// (tokenizer.ggml.pre; without it as the models of its architecture do, with a warning). Where the file does not say whether a
// text begins with its first token, its kind of tokenizer decides. Empty for a file without a tokenizer. Throws Error for one
// of another kind, and for one whose lists do not go together.
std::string tokenizer_json(const Gguf& gguf);

// A tokenizer_config.json: the template of conversations, and the tokens that begin and end a text. Empty for a file
// without any of these.
std::string tokenizer_config_json(const Gguf& gguf);

}  // namespace genesis::models::gguf
