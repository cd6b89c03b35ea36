#include "models/chat/jinja/syntax/string_literal.h"

#include <charconv>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

class Unescaper {
 public:
  explicit Unescaper(std::string_view literal) : literal_(literal) {}

  std::string run() {
    while (at_ < literal_.size()) {
      const char c = literal_[at_++];
      if (c == '\\' && at_ < literal_.size())
        escape(literal_[at_++]);
      else
        text_ += c;
    }
    return std::move(text_);
  }

 private:
  void escape(char kind) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kNames.find(kind); at != std::string_view::npos) {
      text_ += kMeanings[at];
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      number(kind == 'x' ? 2 : kind == 'u' ? 4 : 8);
    } else if (kind >= '0' && kind <= '7') {
      octal();
    } else if (kind == 'N') {
      fail("\\N in a text is not supported: write the character itself");
    } else if (kind != '\n') {  // a backslash before a line end continues the line
      (text_ += '\\') += kind;
    }
  }

  void number(size_t digits) {
    const std::string_view hex = literal_.substr(at_, digits);
    uint32_t code = 0;
    const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() < digits || end.ptr != hex.data() + digits)
      fail("'\\' in a text is not followed by {} hexadecimal digits", digits);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("\\u{:x} in a text is no character", code);
    at_ += digits;
    utf8::append(text_, code);
  }

  void octal() {
    uint32_t code = 0;
    --at_;
    for (int i = 0; i < 3 && at_ < literal_.size() && literal_[at_] >= '0' && literal_[at_] <= '7'; ++i)
      code = code * 8 + static_cast<uint32_t>(literal_[at_++] - '0');
    utf8::append(text_, code);
  }

  std::string_view literal_;
  size_t at_ = 0;
  std::string text_;
};

}  // namespace

std::string unescaped(std::string_view literal) { return Unescaper(literal).run(); }

}  // namespace genesis::jinja
