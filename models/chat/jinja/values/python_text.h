// Python's str on UTF-8: positions and lengths count characters (code points). Text is valid UTF-8 here. Each function takes
// time linear in its texts.
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
// The byte at which the character of this number begins; the end of the text where it has fewer.
size_t byte_of(std::string_view text, int64_t index);

// The byte where `what` stands first, or last; npos where it does not.
// The first byte of the first or the last `what`; npos where there is none.
size_t find_text(std::string_view text, std::string_view what, size_t from = 0);
size_t rfind_text(std::string_view text, std::string_view what);

enum class Side { kLeft, kRight, kBoth };
// White space where `unwanted` is absent, else the characters in it.
std::string_view strip(std::string_view text, Side side, const std::optional<std::string>& unwanted = {});

std::vector<std::string> split_by_space(std::string_view text, int64_t most);  // `most` cuts; negative: all
std::vector<std::string> split_by_space_from_right(std::string_view text, int64_t most);
std::vector<std::string> split_by(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_by_from_right(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);
// `most` replacements; negative: all. Where the result would be larger than `check` allows, it throws.
std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t most,
                     const std::function<void(size_t bytes)>& check);

std::string escaped_html(std::string_view text);  // &, <, >, ' and "
std::string float_text(double value);  // the shortest that reads back the same, laid out as repr() does

}  // namespace genesis::jinja
