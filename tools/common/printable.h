// Makes text from a file or a command line fit for a terminal. Names, metadata and messages may contain anything,
// including commands of a terminal.
#pragma once

#include <string>
#include <string_view>

#include "schema/messages/shortened.h"

namespace genesis::tools {

// Replaces control characters by escapes such as \x1b (ASCII) and \u009b. The same happens to characters that change
// the writing direction (\u202e) or break lines, and to bytes that are not UTF-8 (\xff). Everything else stays as it
// is.
std::string printable(std::string_view text);
// The same for text of several lines: line ends and tabs stay.
std::string printable_lines(std::string_view text);
// The same for JSON text. The result is JSON with the same content.
std::string printable_json(std::string_view json);

// Returns true if a person reads stdout at a terminal: the terminal of this process, or of the tool that started it
// as a rank.
bool writes_to_terminal();

// Returns the error as one paragraph of bounded length. Only indented lines, as in lists, stay separate lines. Words
// of more than 256 bytes and messages of more than 4000 lose their middle, and the result says so.
std::string error_line(std::string_view message);

}  // namespace genesis::tools
