// Makes a tokenizer from an untrusted tokenizer.model. A damaged file must end in genesis::Error.
#pragma once

#include <string>

namespace genesis::testing {

// Returns true if the file was read; its tokenizer has then encoded a text.
bool try_pieces(const std::string& bytes);

}  // namespace genesis::testing
