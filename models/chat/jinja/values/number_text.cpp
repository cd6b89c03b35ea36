#include "models/chat/jinja/values/number_text.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/python_text.h"
#include "schema/core/error.h"

namespace genesis::jinja {
namespace {

// Strips surrounding white space and the _ between digits. Returns nothing if a _ stands elsewhere.
std::optional<std::string> plain_digits(std::string_view text) {
  text = strip(text, Side::kBoth);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) { return std::isalnum(static_cast<unsigned char>(text[at])) != 0; };
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(i - 1) || !is_digit(i + 1)) {
      return {};
    }
  }
  return digits;
}

bool take_sign(std::string& digits) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  return is_negative;
}

// Removes the prefix of the digits and returns their base; 0 if they do not fit `base`.
int take_prefix(std::string& digits, int base) {
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    const int prefixed = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == 0 || base == prefixed)) return digits.erase(0, 2), prefixed;
  }
  if (base != 0) return base;
  return digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos ? 0 : 10;
}

}  // namespace

std::optional<int64_t> integer_in_text(std::string_view text, int base) {
  auto digits = plain_digits(text);
  if (!digits) return {};
  const bool is_negative = take_sign(*digits);
  base = take_prefix(*digits, base);
  if (base == 0 || digits->empty() || !std::isalnum(static_cast<unsigned char>((*digits)[0]))) return {};
  if (is_negative) digits->insert(0, "-");
  int64_t value = 0;
  const auto end = std::from_chars(digits->data(), digits->data() + digits->size(), value, base);
  if (end.ptr != digits->data() + digits->size()) return {};
  if (end.ec == std::errc::result_out_of_range) fail("{} is no int of 64 bits", text.substr(0, 100));
  return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> float_in(std::string_view text) {
  auto digits = plain_digits(text);
  if (!digits) return {};
  const bool is_negative = take_sign(*digits);
  const std::string name = lower(*digits);
  double value = 0;
  if (name == "inf" || name == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (name == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (name.empty() || name.find_first_not_of("0123456789.e+-") != std::string::npos || name[0] == '-')
      return {};
    const auto end = std::from_chars(name.data(), name.data() + name.size(), value);
    if (end.ptr != name.data() + name.size() || end.ec == std::errc::invalid_argument) return {};
    // from_chars() does not set the value if it is out of range, too large or too small.
    if (end.ec == std::errc::result_out_of_range) value = std::strtod(name.c_str(), nullptr);
  }
  return is_negative ? -value : value;
}

}  // namespace genesis::jinja
