#include "models/grammar/regex.h"

#include <algorithm>
#include <optional>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

constexpr char32_t kLastCharacter = 0x10FFFF;

// Returns the characters that are in none of the ranges. Surrogates are no characters.
Ranges complement(Ranges ranges) {
  ranges.emplace_back(0xD800, 0xDFFF);
  std::ranges::sort(ranges);
  Ranges rest;
  char32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) rest.emplace_back(next, low - 1);
    next = std::max<char32_t>(next, high + 1);
  }
  if (next <= kLastCharacter) rest.emplace_back(next, kLastCharacter);
  return rest;
}

class Parser {
 public:
  Parser(Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  Grammar::Rule parse() {
    if (peek() == '^') ++at_;
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

Grammar::Rule Parser::sequence() {
  std::vector<Grammar::Rule> parts;
  while (peek() != -1 && peek() != '|' && peek() != ')') {
    if (peek() == '$' && at_ + 1 == text_.size()) {
      ++at_;
      break;
    }
    parts.push_back(repeated());
  }
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
  if (take('[')) return grammar_.characters(set());
  if (take('.')) return grammar_.characters(complement({{'\n', '\n'}}));
  if (take('\\')) return grammar_.characters(escaped());
  if (std::string_view("*+?{}^$").find(static_cast<char>(peek())) != std::string_view::npos)
    fail_here("unexpected");
  const char32_t c = character();
  return grammar_.characters({{c, c}});
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

// Reads a character of UTF-8.
char32_t Parser::character() {
  const int first = peek();
  const int behind = first < 0x80 ? 0 : first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0 || (first >= 0x80 && first < 0xC2) || at_ + static_cast<size_t>(behind) >= text_.size())
    fail_here("expected a character of UTF-8 at");
  char32_t c = behind == 0 ? static_cast<char32_t>(first) : static_cast<char32_t>(first & (0x3F >> behind));
  ++at_;
  for (int i = 0; i < behind; ++i, ++at_) c = c << 6 | (static_cast<unsigned char>(text_[at_]) & 63);
  if (c > kLastCharacter) fail_here("expected a character of UTF-8 before");
  return c;
}

}  // namespace

Grammar::Rule add_regex(Grammar& grammar, std::string_view expression) {
  return Parser(grammar, expression).parse();
}

}  // namespace genesis::grammar
