// What Python's str does, on UTF-8: positions and lengths count characters (code points). Text is valid UTF-8 here.
//
// Upper and lower case are one character for one, as utf8proc has them: Python makes "SS" of the upper case of U+00DF.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::jinja {

bool is_python_space(uint32_t code);  // str.isspace
std::vector<uint32_t> characters(std::string_view text);
std::string text_of(const std::vector<uint32_t>& characters);
int64_t length_of(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// White space where `unwanted` is absent, else the characters in it.
std::string_view strip(std::string_view text, Side side, const std::optional<std::string>& unwanted = {});

std::vector<std::string> split_by_space(std::string_view text, int64_t most);  // `most` cuts; negative: all
std::vector<std::string> split_by(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_by_from_right(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_lines(std::string_view text);
// `most` replacements; negative: all. Where the result would be larger than `check` allows, it throws.
std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t most,
                     const std::function<void(size_t bytes)>& check);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalized(std::string_view text);
std::string title(std::string_view text);           // the method: whatever is no letter ends a word
std::string title_of_words(std::string_view text);  // Jinja's filter: space, -, ( { [ < begin one

bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_decimal(uint32_t code);
bool is_letter(uint32_t code);
bool is_printable(uint32_t code);  // str.isprintable

std::string escaped_html(std::string_view text);  // &, <, >, ' and "
std::string float_text(double value);  // the shortest that reads back the same, laid out as repr() does

}  // namespace genesis::jinja
