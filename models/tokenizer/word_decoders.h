// Decoders that change one token at a time, as `tokenizers` has them. The Decoder runs them as steps.
#pragma once

#include <string>
#include <string_view>

namespace genesis::text {

// Writes the character of Metaspace as a space, or removes it with `drops`.
std::string metaspace_decoded(std::string_view token, const std::string& character, bool drops);

// Removes `prefix` from a token that continues a word, and puts a space in front of one that begins a word, except in the first
// token. `cleanup` then removes spaces before punctuation and contractions.
std::string word_piece_decoded(std::string_view token, const std::string& prefix, bool is_first,
                               bool cleanup);

// Removes `pad`. `cleanup` also does what it does for WordPiece, and writes `delimiter` as a space.
std::string ctc_decoded(std::string_view token, const std::string& pad, const std::string& delimiter,
                        bool cleanup);

}  // namespace genesis::text
