// Numbers in texts, as int() and float() of Python read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace genesis::jinja {

// With _ between digits, a sign and white space around. `base`: 2 to 36, or 0 for the prefixes 0x, 0o and 0b of literals.
// Nothing where the text is no int; throws Error where the int is beyond 64 bits.
std::optional<int64_t> integer_in_text(std::string_view text, int base);
// Infinite where it is beyond a double; "inf" and "nan", too.
std::optional<double> float_in(std::string_view text);

}  // namespace genesis::jinja
