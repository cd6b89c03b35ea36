#include "models/grammar/regex.h"

#include <algorithm>
#include <optional>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

class Parser {
 public:
  Parser(Grammar& grammar, std::string_view text, const MakeCharacters& characters)
      : grammar_(grammar), text_(text), characters_(characters) {}

  // With `searches`, the text has a part that matches.
  Grammar::Rule parse(bool searches) {
    if (searches) anything_ = grammar_.repeat(characters(complement({})), 0);
    const Grammar::Rule rule = alternatives();
    if (at_ < text_.size()) fail_here("unexpected");
    return rule;
  }

 private:
  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
  bool take(char c) {
    const bool is_next = peek() == static_cast<unsigned char>(c);
    at_ += is_next;
    return is_next;
  }
  [[noreturn]] void fail_here(const char* what) const {
    fail("the regular expression cannot be used: {} '{}' at byte {}", what, text_.substr(at_, 8), at_);
  }

  Grammar::Rule characters(const Ranges& ranges) {
    return characters_ ? characters_(ranges) : grammar_.characters(ranges);
  }
  bool takes_end();
  Grammar::Rule alternatives();
  Grammar::Rule sequence();
  Grammar::Rule repeated();
  Grammar::Rule atom();
  Grammar::Rule group();
  Ranges set();
  Ranges escaped();
  char32_t character();
  std::optional<int64_t> number();

  Grammar& grammar_;
  const std::string_view text_;
  const MakeCharacters& characters_;
  std::optional<Grammar::Rule> anything_;  // matches all that may stand beside a match
  size_t at_ = 0;
  int depth_ = 0;
};

Grammar::Rule Parser::alternatives() {
  if (++depth_ > 50) fail_here("groups are nested too deep at");
  std::vector<Grammar::Rule> choices = {sequence()};
  while (take('|')) choices.push_back(sequence());
  --depth_;
  return choices.size() == 1 ? choices[0] : grammar_.any_of(choices);
}

// Takes a $ at the end of an alternative of the whole expression.
bool Parser::takes_end() {
  const bool is_last = at_ + 1 == text_.size() || (at_ + 1 < text_.size() && text_[at_ + 1] == '|');
  return depth_ == 1 && is_last && take('$');
}

Grammar::Rule Parser::sequence() {
  std::vector<Grammar::Rule> parts;
  const bool is_outermost = depth_ == 1, is_from_begin = is_outermost && take('^');
  if (is_outermost && anything_ && !is_from_begin) parts.push_back(*anything_);
  bool is_to_end = false;
  while (peek() != -1 && peek() != '|' && peek() != ')' && !is_to_end) {
    is_to_end = takes_end();
    if (!is_to_end) parts.push_back(repeated());
  }
  if (is_outermost && anything_ && !is_to_end) parts.push_back(*anything_);
  return grammar_.sequence(parts);
}

Grammar::Rule Parser::repeated() {
  Grammar::Rule rule = atom();
  for (;;) {
    if (take('*'))
      rule = grammar_.repeat(rule, 0);
    else if (take('+'))
      rule = grammar_.repeat(rule, 1);
    else if (take('?'))
      rule = grammar_.optional(rule);
    else if (take('{')) {
      const auto least = number();
      const bool has_range = take(',');
      const auto most = has_range ? number() : least;
      if (!take('}') || (!least && !most) || (most && *most < least.value_or(0)))
        fail_here("expected {m,n} before");
      rule = grammar_.repeat(rule, least.value_or(0), most.value_or(-1));
    } else {
      return rule;
    }
  }
}

std::optional<int64_t> Parser::number() {
  int64_t value = 0;
  size_t digits = 0;
  for (; peek() >= '0' && peek() <= '9' && digits < 6; ++digits) value = 10 * value + (text_[at_++] - '0');
  return digits > 0 ? std::optional(value) : std::nullopt;
}

Grammar::Rule Parser::atom() {
  if (take('(')) return group();
  if (take('[')) return characters(set());
  if (take('.')) return characters(complement({{'\n', '\n'}}));
  if (take('\\')) return characters(escaped());
  if (std::string_view("*+?{}^$").find(static_cast<char>(peek())) != std::string_view::npos)
    fail_here("unexpected");
  const char32_t c = character();
  return characters({{c, c}});
}

Grammar::Rule Parser::group() {
  if (take('?') && !take(':')) fail_here("only (?: ) is known, not (?");
  const Grammar::Rule rule = alternatives();
  if (!take(')')) fail_here("expected ) before");
  return rule;
}

Ranges Parser::escaped() {
  const Ranges digits = {{'0', '9'}}, words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
               blanks = {{'\t', '\r'}, {' ', ' '}};
  const int c = peek();
  ++at_;
  switch (c) {
    case 'd':
      return digits;
    case 'D':
      return complement(digits);
    case 'w':
      return words;
    case 'W':
      return complement(words);
    case 's':
      return blanks;
    case 'S':
      return complement(blanks);
    case 'n':
      return {{'\n', '\n'}};
    case 't':
      return {{'\t', '\t'}};
    case 'r':
      return {{'\r', '\r'}};
    default:
      break;
  }
  --at_;
  if (c < 0 || std::isalnum(c)) fail_here("an escape that is not known:");
  const char32_t own = character();
  return {{own, own}};
}

Ranges Parser::set() {
  const bool is_negated = take('^');
  Ranges ranges;
  for (bool is_first = true; is_first || peek() != ']'; is_first = false) {
    if (peek() == -1) fail_here("expected ] before");
    Ranges low = {};
    if (take('\\')) {
      low = escaped();
    } else {
      const char32_t c = character();
      low = {{c, c}};
    }
    const bool is_range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
    if (is_range && low.size() == 1 && low[0].first == low[0].second) {
      ++at_;
      const char32_t high = take('\\') ? escaped()[0].first : character();
      if (high < low[0].first) fail_here("a range that ends before it begins, before");
      low[0].second = high;
    }
    ranges.insert(ranges.end(), low.begin(), low.end());
  }
  ++at_;
  return is_negated ? complement(std::move(ranges)) : ranges;
}

char32_t Parser::character() {
  const auto c = read_character(text_, at_);
  if (!c) fail_here("expected a character of UTF-8 at");
  return *c;
}

}  // namespace

Grammar::Rule add_regex(Grammar& grammar, std::string_view expression, const MakeCharacters& characters) {
  return Parser(grammar, expression, characters).parse(false);
}

Grammar::Rule add_regex_search(Grammar& grammar, std::string_view expression,
                               const MakeCharacters& characters) {
  return Parser(grammar, expression, characters).parse(true);
}

}  // namespace genesis::grammar
