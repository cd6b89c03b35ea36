// The tokenizers of GGUF files that are lists of pieces with scores and types: SentencePiece's two kinds, and BERT's WordPiece.
#pragma once

#include <string>

#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns true for "llama", "t5" and "bert", values of tokenizer.ggml.model.
bool is_piece_tokenizer(const std::string& kind);

// Returns the tokenizer.json of a file whose tokenizer.ggml.model is `kind`: it gives the ids of llama.cpp. Missing settings have
// the defaults of llama.cpp. Throws Error that names the key that is missing, has a wrong type, or is inconsistent.
std::string piece_tokenizer_json(const Gguf& gguf, const std::string& kind);

}  // namespace genesis::models::gguf
