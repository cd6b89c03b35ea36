// Text in pictures: every name that is put into a picture goes through one of these, once, where it is
// written. A name comes from a file and may hold anything: quotes, tags, Graphviz's escapes, bytes that are
// not UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::viz {

// UTF-8 on one line. What cannot be seen, or turns the text around it, is shown by its number: \u{202e} for a
// character, \xff for a byte that is not UTF-8.
std::string printable(std::string_view text);

// Printable, for the text and the attributes of SVG and HTML.
std::string xml_text(std::string_view text);

// Printable, as a quoted string of the DOT language. Lines are joined by a line break.
std::string dot_string(std::string_view text);
std::string dot_lines(const std::vector<std::string>& lines);

}  // namespace genesis::viz
