#include "models/chat/jinja/values/percent_format.h"

#include <cmath>

#include "models/chat/jinja/values/format_value.h"
#include "models/chat/jinja/values/operators.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

// Escapes all characters beyond ASCII, as Python's ascii() does.
std::string ascii_of(const std::string& repr) {
  std::string text;
  for (const uint32_t code : characters(repr))
    text += code < 0x80      ? std::string(1, static_cast<char>(code))
            : code < 0x100   ? fmt::format("\\x{:02x}", code)
            : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                             : fmt::format("\\U{:08x}", code);
  return text;
}

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, std::string_view format, const Value& arguments)
      : budget_(budget), format_(format), arguments_(arguments) {}

  std::string run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      append(format_.substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent < format_.size()) append(conversion());
    }
    const bool is_mapping = arguments_.dict() || (arguments_.sequence() && !is_tuple(arguments_));
    if (!is_mapping && used_ < count()) fail("%: not all arguments are used by the format");
    return std::move(text_);
  }

 private:
  void append(std::string_view more) {
    budget_.check_text(text_.size() + more.size());
    budget_.read(more.size());
    text_ += more;
  }
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }
  char next() {
    if (at_ >= format_.size()) fail("%: the format ends behind a '%'");
    return format_[at_++];
  }
  size_t count() const { return is_tuple(arguments_) ? arguments_.sequence()->items.size() : 1; }

  Value argument() {
    if (used_ >= count()) fail("%: the format needs more than {} arguments", count());
    return is_tuple(arguments_) ? arguments_.sequence()->items[used_++] : (++used_, arguments_);
  }

  Value named() {
    const size_t end = format_.find(')', at_);
    if (end == std::string_view::npos) fail("%: a '(' of the format is not closed");
    if (!arguments_.dict()) fail_type("% with a name", "a mapping", arguments_);
    const std::string_view name = format_.substr(at_, end - at_);
    at_ = end + 1;
    const Value* found = arguments_.dict()->find(name);
    if (!found) fail("%: the mapping has no '{}'", name);
    used_ = count();
    return *found;
  }

  int64_t number() {
    if (peek() == '*') {
      next();
      return integer_in(argument(), "%*");
    }
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (next() - '0');
      if (value > kMaxNumber) fail("%: a width or a precision is more than {}", kMaxNumber);
    }
    return value;
  }

  std::string conversion() {
    std::optional<Value> value;
    if (peek() == '(') {
      next();
      value = named();
    }
    FormatSpec spec;
    spec.align = '>';
    bool has_zeros = false;
    for (; peek() != '\0' && std::string_view("-+ 0#").find(peek()) != std::string_view::npos;) {
      const char flag = next();
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
      if (flag == '0') has_zeros = true;
      if (flag == '#') spec.alternate = true;
    }
    spec.width = number();
    if (spec.width < 0) spec.width = -spec.width, spec.align = '<';
    if (peek() == '.') {
      next();
      spec.precision = number();
    }
    if (spec.width > kMaxNumber || spec.precision.value_or(0) > kMaxPrecision)
      fail("%: a width or a precision is too large");
    spec.type = next();
    if (spec.type == '%') return "%";
    if (!value) value = argument();
    return converted(*value, spec, has_zeros && spec.align != '<');
  }

  std::string converted(const Value& value, FormatSpec spec, bool has_zeros) {
    switch (spec.type) {
      case 's':
        return as_text(to_text(budget_, value), spec);
      case 'r':
        return as_text(to_repr(budget_, defined(value)), spec);
      case 'a':
        return as_text(ascii_of(to_repr(budget_, defined(value))), spec);
      case 'c':
        if (value.text() && length_of(*value.text()) == 1) return as_text(*value.text(), spec);
        spec.precision = {};
        return as_text(format_number(budget_, value, {.type = 'c'}), spec);
      default:
        return as_number(value, spec, has_zeros);
    }
  }

  std::string as_text(std::string_view text, FormatSpec spec) {
    spec.sign = '-';
    spec.type = 's';
    return format_text_value(budget_, text, spec);
  }

  std::string as_number(Value value, FormatSpec spec, bool has_zeros) {
    if (std::string_view("diuoxXeEfFgG").find(spec.type) == std::string_view::npos)
      fail("%: '{}' is no type of a format", spec.type);
    if (!value.is_number()) fail_type("% with a format of numbers", "a number", value);
    if (has_zeros) spec.fill = "0", spec.align = '=';
    if (std::string_view("diu").find(spec.type) != std::string_view::npos) {
      spec.type = 'd';
      if (value.real()) value = whole_part(*value.real());
    }
    if (std::string_view("doxX").find(spec.type) == std::string_view::npos)
      return format_number(budget_, value, spec);
    const int64_t digits = spec.precision.value_or(0);
    spec.precision = {};
    if (digits == 0) return format_number(budget_, value, spec);
    FormatSpec number = spec;  // zeros pad the digits to the precision, then the fill pads to the width
    number.fill = "0", number.align = '=';
    const bool has_sign = spec.sign != '-' || less(budget_, value, int64_t{0});
    number.width = digits + has_sign + (spec.alternate && spec.type != 'd' ? 2 : 0);
    spec.sign = '-', spec.type = 's';
    if (spec.align == '=') spec.align = '>', spec.fill = " ";
    return format_text_value(budget_, format_number(budget_, value, number), spec);
  }

  static constexpr int64_t kMaxNumber = 1 << 20, kMaxPrecision = 1000;

  Budget& budget_;
  std::string_view format_;
  const Value& arguments_;
  size_t at_ = 0, used_ = 0;
  std::string text_;
};

}  // namespace

Value percent_format(Budget& budget, const Value& format, const Value& arguments) {
  if (format.is_markup()) fail("% is not supported with a text that is marked as safe");
  std::string text = PercentFormatter(budget, *format.text(), arguments).run();
  budget.make(text.size());
  return text;
}

}  // namespace genesis::jinja
