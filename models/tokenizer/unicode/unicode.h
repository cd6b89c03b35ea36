// The parts of Unicode that tokenizers need: normalization forms, lower case, and classes of characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/tokenizer/unicode/newer_characters.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {

enum class NormalizationForm { kC, kD, kKC, kKD };

// Returns `text`, which must be UTF-8, in a normalization form. If it is not in that form yet, `storage` holds the result. Takes
// O(n log n) for any sequence of marks.
std::string_view normalized(std::string_view text, NormalizationForm form, std::string& storage);
inline std::string_view nfc(std::string_view text, std::string& storage) {
  return normalized(text, NormalizationForm::kC, storage);
}

// Returns `text`, which must be UTF-8, in lower case, character by character: a final sigma is not special.
std::string lower_case(std::string_view text);

bool is_white_space(uint32_t code);  // the property White_Space
// Return the number of bytes of white space at the ends of a text, which must be UTF-8.
size_t white_space_at_start(std::string_view text);
size_t white_space_at_end(std::string_view text);
// Returns the last character of a text, which must not be empty.
utf8::Character last_character(std::string_view text);

bool is_number(uint32_t code);  // categories Nd, Nl and No
// Returns true for \w of Unicode's regular expressions (UTS #18): alphabetic characters, marks, decimal digits, connectors and
// joiners.
bool is_word_character(uint32_t code);

}  // namespace genesis::text
