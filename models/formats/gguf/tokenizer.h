// Converts the tokenizer in the metadata of a GGUF file to the files of Hugging Face that models/tokenizer reads.
#pragma once

#include <string>

#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns a tokenizer.json: byte-level BPE (tokenizer.ggml.model is "gpt2") with one of the pre-tokenizers of pre_tokenizers.h
// (tokenizer.ggml.pre; if it is absent, the one of the architecture, with a warning), or one of the kinds of piece_tokenizer.h. If
// a file with byte-level BPE does not say whether a text begins with the BOS token, the pre-tokenizer decides. Returns "" for a
// file without a tokenizer. Throws Error for another kind of tokenizer, and for inconsistent lists.
std::string tokenizer_json(const Gguf& gguf);

// Returns a tokenizer_config.json: the chat template, and the tokens that begin and end a text. Returns "" for a file without any
// of these.
std::string tokenizer_config_json(const Gguf& gguf);

}  // namespace genesis::models::gguf
