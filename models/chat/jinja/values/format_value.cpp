#include "models/chat/jinja/values/format_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/chat/jinja/values/operators.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 20, kMaxPrecision = 1000;

bool is_one_of(char c, std::string_view signs) {
  return c != '\0' && signs.find(c) != std::string_view::npos;
}

class SpecParser {
 public:
  explicit SpecParser(std::string_view text) : text_(text), rest_(text) {}

  FormatSpec run() {
    alignment();
    if (is_one_of(peek(), "+- ")) spec_.sign = next();
    if (peek() == '#') spec_.alternate = next() != 0;
    if (peek() == '0') {
      next();
      if (spec_.align == 0) spec_.fill = "0", spec_.align = '=';
    }
    spec_.width = number(kMaxWidth).value_or(0);
    if (is_one_of(peek(), ",_")) spec_.grouping = next();
    if (peek() == '.') {
      next();
      spec_.precision = number(kMaxPrecision);
      if (!spec_.precision) fail("the format '{}' has no precision behind the dot", text_);
    }
    if (!rest_.empty()) spec_.type = next();
    if (!rest_.empty() || (spec_.type != 0 && !is_one_of(spec_.type, "bcdeEfFgGnosxX%")))
      fail("'{}' is no format", text_);
    return spec_;
  }

 private:
  char peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  char next() {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  void alignment() {
    if (rest_.empty()) return;
    const size_t bytes = utf8::first_character(rest_).bytes;
    if (bytes < rest_.size() && is_one_of(rest_[bytes], "<>^=")) {
      spec_.fill = rest_.substr(0, bytes);
      rest_.remove_prefix(bytes);
    }
    if (is_one_of(peek(), "<>^=")) spec_.align = next();
  }

  std::optional<int64_t> number(int64_t most) {
    if (peek() < '0' || peek() > '9') return {};
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (next() - '0');
      if (value > most) fail("the format '{}' has a number beyond {}", text_, most);
    }
    return value;
  }

  std::string_view text_, rest_;
  FormatSpec spec_;
};

std::string repeated(const std::string& text, int64_t times) {
  std::string result;
  for (int64_t i = 0; i < times; ++i) result += text;
  return result;
}

// Pads a number or a text. `head` is a sign and a prefix, which precede the fill with the alignment =.
std::string padded(Budget& budget, const std::string& head, const std::string& body, const FormatSpec& spec) {
  budget.make(static_cast<size_t>(std::max<int64_t>(spec.width, 0)) * spec.fill.size() + body.size());
  const int64_t missing = std::max<int64_t>(spec.width - length_of(head) - length_of(body), 0);
  switch (spec.align) {
    case '<':
      return head + body + repeated(spec.fill, missing);
    case '^':
      return repeated(spec.fill, missing / 2) + head + body + repeated(spec.fill, missing - missing / 2);
    case '=':
      return head + repeated(spec.fill, missing) + body;
    default:
      return repeated(spec.fill, missing) + head + body;
  }
}

// Inserts `sign` between groups of digits of the integer part.
std::string grouped(const std::string& digits, char sign, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) result += sign;
    result += digits[i];
  }
  return result + digits.substr(whole);
}

// Formats a float with a precision but without a type, as Python does: like %g, but it never looks like an int.
std::string general(double value, int64_t precision) {
  precision = std::max<int64_t>(precision, 1);
  std::string text = fmt::format("{:.{}g}", value, static_cast<int>(precision));
  if (text.find_first_of(".e") != std::string::npos) return text;
  if (static_cast<int64_t>(text.size()) < precision) return text + ".0";
  return fmt::format("{:.{}e}", value, 0);
}

std::string float_digits(double value, const FormatSpec& spec) {
  if (std::isnan(value) || std::isinf(value)) {
    const std::string text = std::isnan(value) ? "nan" : "inf";
    return is_one_of(spec.type, "EFG") ? (text == "nan" ? "NAN" : "INF") : text;
  }
  const int precision = static_cast<int>(spec.precision.value_or(6));
  const bool dot = spec.alternate;
  switch (spec.type) {
    case 'e':
      return dot ? fmt::format("{:#.{}e}", value, precision) : fmt::format("{:.{}e}", value, precision);
    case 'E':
      return dot ? fmt::format("{:#.{}E}", value, precision) : fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return dot ? fmt::format("{:#.{}f}", value, precision) : fmt::format("{:.{}f}", value, precision);
    case 'g':
    case 'n':
      return dot ? fmt::format("{:#.{}g}", value, precision) : fmt::format("{:.{}g}", value, precision);
    case 'G':
      return dot ? fmt::format("{:#.{}G}", value, precision) : fmt::format("{:.{}G}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    default:
      return spec.precision ? general(value, precision) : float_text(value);
  }
}

std::string integer_digits(uint64_t size, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", size);
    case 'o':
      return fmt::format("{:o}", size);
    case 'x':
      return fmt::format("{:x}", size);
    case 'X':
      return fmt::format("{:X}", size);
    default:
      return fmt::format("{}", size);
  }
}

std::string character(int64_t code) {
  if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("{} is no character", code);
  return text_of({static_cast<uint32_t>(code)});
}

}  // namespace

FormatSpec parse_format_spec(std::string_view spec) { return SpecParser(spec).run(); }

std::string format_text_value(Budget& budget, std::string_view text, FormatSpec spec) {
  if (spec.align == '=' && spec.fill == "0") spec.align = '<';
  if ((spec.type != 0 && spec.type != 's') || spec.sign != '-' || spec.grouping != 0 || spec.align == '=')
    fail("a str cannot be written in this format of numbers");
  if (spec.align == 0) spec.align = '<';
  if (spec.precision) text = text.substr(0, byte_of(text, *spec.precision));
  return padded(budget, "", std::string(text), spec);
}

std::string format_number(Budget& budget, const Value& value, FormatSpec spec) {
  const auto whole = whole_number(value);
  if (spec.type == 'c') {
    if (!whole) fail_type("the format c", "an int", value);
    spec.type = 's';
    return format_text_value(budget, character(*whole), spec);
  }
  const bool as_integer = whole && (spec.type == 0 || is_one_of(spec.type, "bdnoxX"));
  if (spec.type == 's' || (!whole && is_one_of(spec.type, "bdoxX")))
    fail("a {} cannot be written in the format '{}'", type_name(value), spec.type);
  if (as_integer && spec.precision) fail("an int takes no precision");
  const double real = as_integer ? 0 : number_in(value, "a format");
  const bool is_negative = as_integer ? *whole < 0 : std::signbit(real) && !std::isnan(real);
  std::string head = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (as_integer && spec.alternate && is_one_of(spec.type, "boxX")) (head += '0') += spec.type;
  const uint64_t size =
      as_integer ? is_negative ? uint64_t{0} - static_cast<uint64_t>(*whole) : static_cast<uint64_t>(*whole)
                 : 0;
  std::string body = as_integer ? integer_digits(size, spec.type) : float_digits(std::fabs(real), spec);
  if (spec.grouping != 0) body = grouped(body, spec.grouping, is_one_of(spec.type, "boxX") ? 4 : 3);
  return padded(budget, head, body, spec);
}

std::string format_value(Budget& budget, const Value& value, const FormatSpec& spec) {
  defined(value);
  if (value.text()) return format_text_value(budget, *value.text(), spec);
  if (value.is_number()) return format_number(budget, value, spec);
  fail("a {} takes no format", type_name(value));
}

}  // namespace genesis::jinja
