// Text that came from a file or a command line, made fit for a terminal: names, metadata and messages may
// hold anything, a terminal's own commands too. Used wherever a tool prints such text.
#pragma once

#include <string>
#include <string_view>

namespace genesis::tools {

// Control characters become \x1b (of ASCII) and \u009b, as do marks that turn the direction of writing
// (\u202e) or break lines; bytes that are not UTF-8 become \xff. Everything else stays as it is.
std::string printable(std::string_view text);
// The same for text of many lines, whose line ends and tabs stay.
std::string printable_lines(std::string_view text);
// The same for JSON that is already a line of its own: what it holds stays the same.
std::string printable_json(std::string_view json);

// Whether what is written to stdout is read on a terminal, by this process or the tool that started it as a rank.
bool writes_to_terminal();

// The first 60 characters of a longer text, and its length: `"In the begin..." (5000 bytes)`.
std::string shortened(std::string_view text);

// An error as one paragraph of bounded length: only indented lines, as lists have them, stay lines; words of more than 256 bytes and messages of more than 4000 lose
// their middle, and say so.
std::string error_line(std::string_view message);

}  // namespace genesis::tools
