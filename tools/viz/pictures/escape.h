// Escapes text in pictures. Every name in a picture goes through one of these functions exactly once, where it is
// written. A name comes from a file and may contain anything: quotes, tags, Graphviz's escapes, bytes that are not
// UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::viz {

// Returns UTF-8 on one line. Characters that are invisible or turn the direction of text are replaced by their
// number, as \u{202e}; bytes that are not UTF-8 are replaced as \xff.
std::string printable(std::string_view text);

// Escapes printable text for content and attributes of SVG and HTML.
std::string xml_text(std::string_view text);

// Escapes printable text as a quoted string of the DOT language. dot_lines() joins lines by line breaks.
std::string dot_string(std::string_view text);
std::string dot_lines(const std::vector<std::string>& lines);

}  // namespace genesis::viz
