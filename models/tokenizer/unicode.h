// What tokenizers ask of Unicode: the composed form of a text (NFC) and two classes of characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis::text {

// `text`, which must be UTF-8, in normalization form C; where it is not in that form yet, `storage` holds it.
std::string_view nfc(std::string_view text, std::string& storage);

bool is_white_space(uint32_t code);  // the property White_Space
// \w of Unicode's regular expressions (UTS #18): Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_character(uint32_t code);

}  // namespace genesis::text
