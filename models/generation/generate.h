// Generates a text with one call, and encodes texts of byte tokens. For several answers: models/generation/generator.h.
#pragma once

#include "models/generation/generator.h"

namespace genesis::text {

// Answers a prompt, starting from an empty text, in a session of open_for_generation().
GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(const Piece&)>& on_piece = {});

// Bytes as tokens, for models with a vocabulary of 256.
std::vector<int64_t> encode_bytes(const std::string& text);
std::string decode_bytes(const std::vector<int64_t>& tokens);
TokenText byte_text();

}  // namespace genesis::text
