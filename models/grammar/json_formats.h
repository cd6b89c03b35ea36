// Regular expressions of JSON values that a schema restricts: numbers of a range, and strings of a format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace genesis::grammar {

// The least and the greatest value, both included; empty: any of up to 18 digits.
struct NumberRange {
  std::optional<int64_t> least, most;
};

// Returns an expression of the integers of the range, without leading zeros. Throws Error if there is none or a limit has more than
// 18 digits.
std::string integer_expression(const NumberRange& range);
// Returns an expression of the numbers of the range, without an exponent. With `leaves_least` or `leaves_most`, that limit itself is
// none of them.
std::string number_expression(const NumberRange& range, bool leaves_least, bool leaves_most);

// Returns the expression of a format of JSON schema: date, time, date-time, uuid, ipv4. Empty for other formats.
std::optional<std::string> format_expression(const std::string& format);

}  // namespace genesis::grammar
