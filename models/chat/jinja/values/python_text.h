// Operations of Python's str on UTF-8. Positions and lengths count characters (code points). Texts must be valid UTF-8. Each
// function takes time linear in its texts.
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
// Returns the byte offset of the character with this index; the size of the text if it has fewer characters.
size_t byte_of(std::string_view text, int64_t index);

// Return the byte offset of the first or the last `what`; npos if there is none.
size_t find_text(std::string_view text, std::string_view what, size_t from = 0);
size_t rfind_text(std::string_view text, std::string_view what);

enum class Side { kLeft, kRight, kBoth };
// Strips white space if `unwanted` is absent, else the characters in it.
std::string_view strip(std::string_view text, Side side, const std::optional<std::string>& unwanted = {});

std::vector<std::string> split_by_space(std::string_view text, int64_t most);  // `most` < 0: no limit
std::vector<std::string> split_by_space_from_right(std::string_view text, int64_t most);
std::vector<std::string> split_by(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_by_from_right(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);
// Replaces at most `most` occurrences; negative: all. Calls `check` with the size that the result will have before it grows;
// `check` throws to stop.
std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t most,
                     const std::function<void(size_t bytes)>& check);

std::string escaped_html(std::string_view text);  // &, <, >, ' and "
std::string float_text(double value);             // repr(): the shortest text with this value

}  // namespace genesis::jinja
