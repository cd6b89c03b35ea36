#include "models/chat/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "models/chat/jinja/syntax/string_literal.h"
#include "models/chat/jinja/values/python_text.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Converts line ends to "
// ", and drops the last one.
std::string normalized(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Longer operators come first.
constexpr std::array<std::string_view, 25> kOperators = {"==", "!=", "<=", ">=", "**", "//", "+", "-", "*",
                                                         "/",  "%",  "~",  "<",  ">",  "=",  ".", ":", "|",
                                                         ",",  "(",  ")",  "[",  "]",  "{",  "}"};

// Finds the length of a number without a sign: digits, which single _ may group, with a fraction and an exponent.
class NumberScanner {
 public:
  NumberScanner(std::string_view text, bool after_dot) : text_(text) {
    if (prefixed()) return;
    digits();
    if (after_dot) return;
    const size_t whole = at_;
    if (at_ < text_.size() && text_[at_] == '.' && ++at_ && !digits()) at_ = whole;
    exponent();
    is_float_ = at_ > whole;
  }
  size_t size() const { return at_; }
  bool is_float() const { return is_float_; }

 private:
  // Accepts 0x1f, 0o17 or 0b1.
  bool prefixed() {
    if (text_.size() < 3 || text_[0] != '0') return false;
    const auto value = [](char c) {
      return is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : 99;
    };
    const char kind = static_cast<char>(text_[1] | 0x20);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    size_t end = 2;
    while (end < text_.size() && value(text_[end]) < base) ++end;
    if (end > 2) at_ = end;
    return end > 2;
  }
  bool digits() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (is_digit(text_[at_]) ||
            (at_ > begin && text_[at_] == '_' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))))
      ++at_;
    return at_ > begin;
  }
  void exponent() {
    const size_t before = at_;
    if (at_ >= text_.size() || (text_[at_] != 'e' && text_[at_] != 'E')) return;
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (!digits()) at_ = before;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool is_float_ = false;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) plain_text();
    add(TokenKind::kEnd, "the end of the template");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void add(TokenKind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail("line {}: {}", line_, fmt::format(format, std::forward<Args>(args)...));
  }

  void advance(size_t bytes) {
    const std::string_view skipped = rest().substr(0, bytes);
    line_ += static_cast<int>(std::ranges::count(skipped, '\n'));
    at_ += skipped.size();
  }
  void skip_space() { advance(rest().size() - strip(rest(), Side::kLeft).size()); }
  bool skip(std::string_view what) {
    if (!rest().starts_with(what)) return false;
    advance(what.size());
    return true;
  }
  bool skip_sign() { return skip("-") || skip("+"); }

  // Reads text up to the next tag, and the tag.
  void plain_text() {
    size_t tag = at_;
    while ((tag = text_.find('{', tag)) != std::string::npos && !is_tag(tag)) ++tag;
    if (tag == std::string::npos) {
      add(TokenKind::kText, rest());
      return advance(rest().size());
    }
    text_before(tag);
    const char kind = peek(1);
    if (kind == '#') return comment();
    if (kind == '%' && skip_raw_tag("raw", false)) return raw();
    advance(2);
    skip_sign();
    add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, text_.substr(tag, 2));
    expression(kind == '{' ? "}}" : "%}");
  }

  bool is_tag(size_t at) const {
    const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
    return next == '{' || next == '%' || next == '#';
  }

  // Adds the text up to the tag at `tag`, without the white space that the tag strips.
  void text_before(size_t tag) {
    std::string_view text = rest().substr(0, tag - at_);
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    if (sign == '-') {
      text = strip(text, Side::kRight);
    } else if (sign != '+' && text_[tag + 1] != '{') {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is none
      const bool begins_line = line > 0 || at_ == 0 || text_[at_ - 1] == '\n';
      if (begins_line && strip(text.substr(line), Side::kLeft).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::kText, text);
    advance(tag - at_);
  }

  // Strips white space behind the end of a block tag or a comment.
  void after_block(char sign) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && peek() == '\n')
      advance(1);
  }

  void comment() {
    advance(2);
    skip_sign();
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) fail_here("this comment has no end");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_block(sign);
  }

  // Skips {% raw %} or {% endraw %}. Returns false, and skips nothing, if the tag is another one.
  bool skip_raw_tag(std::string_view name, bool trims_line) {
    const size_t at = at_;
    const int line = line_;
    advance(2);
    skip_sign();
    skip_space();
    if (skip(name)) {
      skip_space();
      const char sign = peek();
      if (sign == '-' || (trims_line && sign == '+')) advance(1);
      if (skip("%}")) {
        if (trims_line || sign == '-') after_block(sign);
        return true;
      }
    }
    at_ = at;
    line_ = line;
    return false;
  }

  void raw() {
    const int line = line_;
    const size_t begin = at_;
    for (size_t tag = at_; (tag = text_.find("{%", tag)) != std::string::npos; ++tag) {
      at_ = tag;
      if (!skip_raw_tag("endraw", true)) continue;
      const size_t end = at_;
      at_ = begin;
      line_ = line;
      text_before(tag);
      return advance(end - at_);
    }
    line_ = line;
    fail_here("{{% raw %}} has no {{% endraw %}}");
  }

  void expression(std::string_view end) {
    for (skip_space(); at_ < text_.size(); skip_space()) {
      const char sign = peek();
      const bool signs = (sign == '-' || (sign == '+' && end == "%}")) && rest().substr(1).starts_with(end);
      if (open_.empty() && (signs || rest().starts_with(end))) return close(end, signs ? sign : '\0');
      token();
    }
    fail_here("a tag has no '{}'", end);
  }

  void close(std::string_view end, char sign) {
    add(end == "}}" ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, end);
    advance(end.size() + (sign != '\0'));
    if (end == "%}")
      after_block(sign);
    else if (sign == '-')
      skip_space();
  }

  void token() {
    const char c = peek();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return quoted(c);
    if (!is_name(c)) return sign();
    size_t size = 1;
    while (is_name(peek(size))) ++size;
    add(TokenKind::kName, rest().substr(0, size));
    advance(size);
  }

  void number() {
    const NumberScanner scanner(rest(), at_ > 0 && text_[at_ - 1] == '.');
    std::string digits(rest().substr(0, scanner.size()));
    std::erase(digits, '_');
    add(scanner.is_float() ? TokenKind::kFloat : TokenKind::kInteger, digits);
    advance(scanner.size());
  }

  void quoted(char quote) {
    size_t end = 1;
    while (at_ + end < text_.size() && peek(end) != quote) end += peek(end) == '\\' ? 2 : 1;
    if (at_ + end >= text_.size()) fail_here("a text has no closing {}", quote);
    add(TokenKind::kString, with_context([&] { return unescaped(rest().substr(1, end - 1)); },
                                         [&] { return fmt::format("line {}", line_); }));
    advance(end + 1);
  }

  void sign() {
    const auto found =
        std::ranges::find_if(kOperators, [&](std::string_view o) { return rest().starts_with(o); });
    if (found == kOperators.end())
      fail_here("'{}' has no meaning here", rest().substr(0, utf8::first_character(rest()).bytes));
    static constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(peek()) != std::string_view::npos) open_ += kClose[kOpen.find(peek())];
    if (kClose.find(peek()) != std::string_view::npos) {
      if (open_.empty() || open_.back() != peek()) fail_here("'{}' closes nothing", peek());
      open_.pop_back();
    }
    add(TokenKind::kOperator, *found);
    advance(found->size());
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  std::string open_;  // closing brackets that are expected
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace genesis::jinja
