// Upper and lower case as Python's str has them, with the mappings of one character to several and the sigma that ends a
// word. Text is valid UTF-8 here.
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
std::string title(std::string_view text);           // the method: whatever has no case ends a word
std::string title_of_words(std::string_view text);  // Jinja's filter: space, -, ( { [ < begin one

// These answer for a whole text, as the methods of Python of the same name do.
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

// These answer for one character.
bool is_decimal(uint32_t code);
bool is_digit(uint32_t code);
bool is_numeric(uint32_t code);
bool is_letter(uint32_t code);
bool is_printable(uint32_t code);

}  // namespace genesis::jinja
