// Text from a language model in one call, and text of byte tokens. For more than one answer: models/text/generator.h.
#pragma once

#include "models/text/generator.h"

namespace genesis::text {

// An answer to a prompt alone, in a session of open_for_generation().
GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(const Piece&)>& on_piece = {});

// Byte tokens: what models with a vocabulary of 256 read and write.
std::vector<int64_t> encode_bytes(const std::string& text);
std::string decode_bytes(const std::vector<int64_t>& tokens);
TokenText byte_text();

}  // namespace genesis::text
