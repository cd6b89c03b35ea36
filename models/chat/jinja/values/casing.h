// Converts and tests letter case like Python's str, including one-to-many mappings and the sigma at the end of a word. Texts must
// be valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis::jinja {

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string swapped_case(std::string_view text);
std::string folded(std::string_view text);  // str.casefold
std::string capitalized(std::string_view text);
std::string title(std::string_view text);           // str.title: characters without case end a word
std::string title_of_words(std::string_view text);  // Jinja's: words begin behind space - ( { [ <

// These test a whole text, like the Python methods of the same name.
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

// These test one character.
bool is_decimal(uint32_t code);
bool is_digit(uint32_t code);
bool is_numeric(uint32_t code);
bool is_letter(uint32_t code);
bool is_printable(uint32_t code);

}  // namespace genesis::jinja
