// Rules for names and texts in a file. Names are shown in messages, pictures and terminals, and become keys and file names
// elsewhere, so they must be short, printable and unambiguous. They are checked when a file is read and before one is written.
#pragma once

#include <string_view>

namespace genesis::file {

inline constexpr size_t kMaxName = 4096;  // bytes

// Throws Error that names `what` unless `name` is UTF-8 of 1 to kMaxName bytes without control characters
// (U+0000 to U+001F, U+007F to U+009F).
void check_name(std::string_view what, std::string_view name);

// Checks the name of a file in a folder: a name of at most 255 bytes without a slash, and neither "." nor "..".
void check_file_name(std::string_view name);

// Checks a line of free text, such as the producer: UTF-8 without NUL. (Values of the metadata may be any bytes.)
void check_text(std::string_view what, std::string_view text);

}  // namespace genesis::file
