// Regular expressions of JSON values that a schema restricts: numbers of a range, and strings of a format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace genesis::grammar {

// Continues an expression of whole numbers: 826.0 is an integer of JSON schema as 826 is.
constexpr const char* kZeroFraction = "(?:\\.0{1,17})?";
// Returns an expression of the integers of up to 18 digits before an exponent of up to 17, which moves the point behind a
// fraction's last digit: 826, 826.0, 1e3, 1.5e3, but not 1.5 or 1.25e1. Negative exponents are none of it.
std::string whole_number_expression();

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
