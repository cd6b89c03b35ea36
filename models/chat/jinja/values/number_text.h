// Reads numbers from texts as Python's int() and float() do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace genesis::jinja {

// Reads an integer with optional _ between digits, a sign and surrounding white space. `base` is 2 to 36, or 0 for literals with
// the prefixes 0x, 0o and 0b. Returns nothing if the text is not an integer; throws Error if it exceeds 64 bits.
std::optional<int64_t> integer_in_text(std::string_view text, int base);
// Reads a float. The result is infinite if it exceeds the range of double; also accepts "inf" and "nan".
std::optional<double> float_in(std::string_view text);

}  // namespace genesis::jinja
