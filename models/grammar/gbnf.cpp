#include "models/grammar/gbnf.h"

#include <algorithm>
#include <map>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

constexpr int kDepth = 50;

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

class GbnfParser {
 public:
  GbnfParser(Grammar& grammar, std::string_view text) : g_(grammar), text_(text) {}

  Grammar::Rule parse() {
    skip_blanks(true);
    while (at_ < text_.size()) rule();
    for (const auto& [name, known] : rules_)
      if (!known.is_defined) fail("the grammar uses '{}', for which it has no rule", name);
    const auto root = rules_.find("root");
    if (root == rules_.end()) fail("the grammar has no rule 'root', with which every text begins");
    return root->second.rule;
  }

 private:
  struct Named {
    Grammar::Rule rule = -1;
    bool is_defined = false;
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view word) {
    const bool is_next = text_.substr(at_).starts_with(word);
    if (is_next) at_ += word.size();
    return is_next;
  }
  void need(std::string_view word) {
    if (!take(word)) fail_here(fmt::format("expected '{}'", word));
  }
  [[noreturn]] void fail_here(const std::string& what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    fail("line {} of the grammar: {}, got '{}'", line, what, text_.substr(at_, 12));
  }

  void skip_blanks(bool lines);
  std::string name();
  Named& named(const std::string& name);
  void rule();
  Grammar::Rule alternatives(bool is_nested);
  Grammar::Rule sequence(bool is_nested);
  Grammar::Rule repeated(Grammar::Rule part);
  Grammar::Rule element();
  Grammar::Rule literal();
  Grammar::Rule character_class();
  char32_t character();
  char32_t hexadecimal(int digits);
  int64_t number();

  Grammar& g_;
  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, Named> rules_;
};

// Skips blanks and comments, and ends of lines where a rule may go on behind them.
void GbnfParser::skip_blanks(bool lines) {
  for (; at_ < text_.size(); ++at_) {
    const char c = peek();
    if (c == '#')
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
      return;
  }
}

std::string GbnfParser::name() {
  const size_t begin = at_;
  while (at_ < text_.size() && is_of_name(peek())) ++at_;
  if (at_ == begin) fail_here("expected the name of a rule");
  return std::string(text_.substr(begin, at_ - begin));
}

GbnfParser::Named& GbnfParser::named(const std::string& name) {
  Named& known = rules_[name];
  if (known.rule < 0) known.rule = g_.declare();
  return known;
}

void GbnfParser::rule() {
  const std::string own = name();
  skip_blanks(false);
  need("::=");
  skip_blanks(true);
  const Grammar::Rule meaning = alternatives(false);
  Named& known = named(own);
  if (known.is_defined) fail_here(fmt::format("there are two rules '{}'", own));
  known.is_defined = true;
  g_.define(known.rule, meaning);
  if (at_ < text_.size() && peek() != '\n' && peek() != '\r') fail_here("expected the end of a rule");
  skip_blanks(true);
}

Grammar::Rule GbnfParser::alternatives(bool is_nested) {
  if (++depth_ > kDepth) fail_here(fmt::format("groups are nested more than {} deep", kDepth));
  std::vector<Grammar::Rule> choices = {sequence(is_nested)};
  while (take("|")) {
    skip_blanks(true);
    choices.push_back(sequence(is_nested));
  }
  --depth_;
  return g_.any_of(choices);
}

Grammar::Rule GbnfParser::sequence(bool is_nested) {
  std::vector<Grammar::Rule> parts;
  while (at_ < text_.size() && std::string_view("|)\n\r").find(peek()) == std::string_view::npos) {
    parts.push_back(repeated(element()));
    skip_blanks(is_nested);
  }
  return g_.sequence(parts);
}

Grammar::Rule GbnfParser::repeated(Grammar::Rule part) {
  for (;;) {
    if (take("*")) {
      part = g_.repeat(part, 0);
    } else if (take("+")) {
      part = g_.repeat(part, 1);
    } else if (take("?")) {
      part = g_.optional(part);
    } else if (take("{")) {
      const int64_t least = number();
      int64_t most = least;
      if (take(",")) most = peek() == '}' ? -1 : number();
      need("}");
      if (most >= 0 && most < least) fail_here(fmt::format("a part is repeated {} to {} times", least, most));
      part = g_.repeat(part, least, most);
    } else {
      return part;
    }
  }
}

int64_t GbnfParser::number() {
  int64_t value = 0;
  const size_t begin = at_;
  for (; at_ - begin < 6 && std::isdigit(static_cast<unsigned char>(peek())); ++at_)
    value = 10 * value + (peek() - '0');
  if (at_ == begin) fail_here("expected a number");
  return value;
}

Grammar::Rule GbnfParser::element() {
  if (peek() == '"') return literal();
  if (peek() == '[') return character_class();
  if (take(".")) return g_.characters({{0, 0xD7FF}, {0xE000, 0x10FFFF}});
  if (take("(")) {
    skip_blanks(true);
    const Grammar::Rule group = alternatives(true);
    need(")");
    return group;
  }
  return named(name()).rule;
}

Grammar::Rule GbnfParser::literal() {
  need("\"");
  std::vector<Grammar::Rule> parts;
  while (peek() != '"') {
    const char32_t c = character();
    parts.push_back(g_.characters({{c, c}}));
  }
  need("\"");
  return g_.sequence(parts);
}

Grammar::Rule GbnfParser::character_class() {
  need("[");
  const bool is_negated = take("^");
  Ranges ranges;
  while (peek() != ']') {
    const char32_t low = character();
    char32_t high = low;
    if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
      ++at_;
      high = character();
    }
    if (high < low) fail_here("a range ends before it begins");
    ranges.emplace_back(low, high);
  }
  need("]");
  return g_.characters(is_negated ? complement(std::move(ranges)) : ranges);
}

char32_t GbnfParser::hexadecimal(int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at_) {
    const char c = peek();
    if (!std::isxdigit(static_cast<unsigned char>(c)))
      fail_here(fmt::format("expected {} hexadecimal digits", digits));
    value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (value > 0x10FFFF) fail_here("there is no such character before");
  return value;
}

// Reads a character of a literal or a class, escaped or as UTF-8.
char32_t GbnfParser::character() {
  if (at_ >= text_.size()) fail_here("a literal or a class does not end");
  if (!take("\\")) {
    const auto c = read_character(text_, at_);
    if (!c) fail_here("expected UTF-8");
    return *c;
  }
  const char kind = peek();
  ++at_;
  switch (kind) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return hexadecimal(2);
    case 'u':
      return hexadecimal(4);
    case 'U':
      return hexadecimal(8);
    case '\\':
    case '"':
    case '[':
    case ']':
      return static_cast<char32_t>(kind);
    default:
      --at_;
      fail_here("an escape that is not known");
  }
}

}  // namespace

Grammar::Rule add_gbnf(Grammar& grammar, std::string_view text) { return GbnfParser(grammar, text).parse(); }

}  // namespace genesis::grammar
