#include "models/tokenizer/split_expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <utility>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "schema/core/error.h"

namespace genesis::text {
namespace {

constexpr size_t kMaxExpression = 16 << 10;  // bytes
constexpr size_t kMatchStack = 8 << 20;      // bytes, allocated as needed
constexpr uint32_t kMatchHeap = 64 << 10;    // KiB; used if PCRE2 has no JIT compiler for this machine
// A match is first searched in a small window, with few backtracking steps. This costs at most their product and suffices for
// nearly all words. Larger windows, and steps beyond the limit, are charged to the budget.
constexpr size_t kWindow = 64;         // bytes
constexpr uint32_t kSteps = 96;        // in PCRE2's count: fewer than the characters it backtracks over
constexpr uint64_t kStepOfACall = 32;  // cost of a counted step, in compared characters

// The characters of White_Space, for use in brackets. PCRE2's \s also contains U+180E, which lost that property in Unicode 6.3.
// The list ends with a class (Zl is U+2028), so that a hyphen behind it begins no range.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2029}\x{202f}\x{205f}\x{3000}\p{Zl})";

constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

// Translates an expression from Oniguruma's syntax to PCRE2's, construct by construct.
class Translator {
 public:
  explicit Translator(std::string_view expression) : rest_(expression) {}

  std::string run() {
    if (rest_.size() > kMaxExpression)
      fail("a split expression of {} bytes, the limit is {}", rest_.size(), kMaxExpression);
    check_caseless();
    while (!rest_.empty()) construct();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(size_t bytes) const {
    fail("'{}' in a split expression, {} bytes before its end", rest_.substr(0, bytes), rest_.size());
  }

  void keep(size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  void replace(size_t bytes, std::string_view text) {
    out_ += text;
    rest_.remove_prefix(bytes);
  }

  // Refuses some pairs of letters in expressions that ignore case: there Oniguruma lets one character match two (U+00DF for
  // "ss"), and PCRE2 never does.
  void check_caseless() const {
    if (rest_.find("(?i:") == std::string_view::npos) return;
    for (const std::string_view pair : {"ss", "ff", "fi", "fl", "st"}) {
      const auto same = [](char a, char b) { return (a | 0x20) == b; };
      if (!std::ranges::search(rest_, pair, same).empty())
        fail("'{}' in a split expression that ignores case", pair);
    }
  }

  void construct() {
    switch (rest_[0]) {
      case '\\':
        return escape(false);
      case '[':
        return bracket();
      case '(':
        return group();
      case '{':
        return interval();
      case '*':
      case '+':
      case '?':
        return keep(rest_.size() > 1 && (rest_[1] == '+' || rest_[1] == '?') ? 2 : 1);
      case '^':
      case '$':
      case '.':
        refuse(1);
      default:
        return keep(1);
    }
  }

  void escape(bool in_bracket) {
    if (rest_.size() < 2) refuse(1);
    const char letter = rest_[1];
    if (letter == 's') return replace(2, in_bracket ? kWhiteSpace : "[" + std::string(kWhiteSpace) + "]");
    if (letter == 'S' && !in_bracket) return replace(2, "[^" + std::string(kWhiteSpace) + "]");
    if (letter == 'd') return replace(2, "\\p{Nd}");
    if (letter == 'p' || letter == 'P') return property();
    const bool is_sign =
        static_cast<unsigned char>(letter) < 0x80 && !std::isalnum(static_cast<unsigned char>(letter));
    if (!is_sign && letter != 'r' && letter != 'n' && letter != 't') refuse(2);
    keep(2);
  }

  void property() {
    const size_t end = std::min(rest_.find('}'), rest_.size() - 1);
    if (rest_.size() < 5 || rest_[2] != '{') refuse(2);
    const std::string_view name = rest_.substr(3, end - 3);
    if (std::ranges::find(kCategories, name) == kCategories.end()) refuse(end + 1);
    keep(end + 1);
  }

  // Translates a bracket expression. Refuses nested sets, and ranges from or to an escape, which only Oniguruma has.
  void bracket() {
    keep(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with("]")) refuse(1);
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_[0] == '[' || rest_.starts_with("&&") || rest_.starts_with("-\\"))
        refuse(std::min<size_t>(rest_.size(), 2));
      if (rest_[0] == '\\')
        escape(true);
      else
        keep(1);
    }
    if (rest_.empty()) fail("a split expression has '[' without ']'");
    keep(1);
  }

  void group() {
    for (const std::string_view start : {"(?:", "(?i:", "(?=", "(?!", "(?>"})
      if (rest_.starts_with(start)) return keep(start.size());
    if (rest_.starts_with("(?") || rest_.starts_with("(*")) refuse(std::min<size_t>(rest_.size(), 4));
    keep(1);
  }

  // Keeps {n}, {n,} and {n,m}. Refuses a + or ? behind one, which Oniguruma reads as a quantifier of its own.
  void interval() {
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos ||
        rest_.substr(1, end - 1).find_first_not_of("0123456789,") != std::string_view::npos ||
        rest_[1] == ',' || (end + 1 < rest_.size() && (rest_[end + 1] == '+' || rest_[end + 1] == '?')))
      refuse(std::min<size_t>(rest_.size(), 8));
    keep(end + 1);
  }

  std::string_view rest_;
  std::string out_;
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct MatchState::Parts {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(64 << 10, kMatchStack, nullptr);

  ~Parts() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

MatchState::MatchState() = default;
MatchState::~MatchState() = default;

MatchState::Parts& MatchState::parts() {
  if (parts_) return *parts_;
  parts_ = std::make_unique<Parts>();
  if (!parts_->match || !parts_->context) throw std::bad_alloc();
  pcre2_jit_stack_assign(parts_->context, nullptr, parts_->stack);
  pcre2_set_heap_limit(parts_->context, kMatchHeap);
  return *parts_;
}

namespace {

std::shared_ptr<pcre2_code> compiled(const std::string& expression, uint32_t options) {
  int error = 0;
  size_t at = 0;
  std::shared_ptr<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | options, &error, &at, nullptr),
      pcre2_code_free);
  if (!code) fail("a split expression that cannot be read: {}", message_of(error));
  // If PCRE2 has no JIT compiler for this machine, it interprets the expression, which is slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return code;
}

struct StepCount {
  WorkBudget& budget;
  size_t position = 0;
};

// PCRE2 calls this before each item of an expression that it tries. Charges the characters that it has moved over since the last
// call.
int count_step(pcre2_callout_block* block, void* data) {
  auto& count = *static_cast<StepCount*>(data);
  const size_t from = std::exchange(count.position, block->current_position), to = count.position;
  return count.budget.spend_steps(kStepOfACall + (to > from ? to - from : from - to)) ? 0
                                                                                      : PCRE2_ERROR_CALLOUT;
}

}  // namespace

SplitExpression::SplitExpression(const std::string& expression)
    : expression_(expression), stand_ins_(expression) {
  const std::string translated = Translator(expression).run();
  code_ = compiled(translated, 0);
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0) fail("a split expression that may match nothing");
  counted_code_ = compiled(translated, PCRE2_AUTO_CALLOUT);
}

int SplitExpression::match(std::string_view text, bool is_whole, bool is_counted, MatchState& state) const {
  MatchState::Parts& parts = state.parts();
  StepCount count{state.budget};
  pcre2_set_match_limit(parts.context, is_counted ? UINT32_MAX : kSteps);
  pcre2_set_callout(parts.context, is_counted ? count_step : nullptr, &count);
  return pcre2_match((is_counted ? counted_code_ : code_).get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                     text.size(), 0, PCRE2_NO_UTF_CHECK | (is_whole ? 0 : PCRE2_PARTIAL_HARD), parts.match,
                     parts.context);
}

void SplitExpression::refuse(std::string_view text, const std::string& why) const {
  fail(
      "the expression '{}' cannot be matched with a text of {} bytes ({}): it tries too many ways where the "
      "text "
      "repeats itself; simplify the expression, or give the text in shorter pieces",
      expression_.substr(0, 200), text.size(), why);
}

// Searches in windows. No match depends on the text before it, since expressions with lookbehind are refused. An attempt that
// reaches the end of the window is a partial match, and is repeated with a window twice as large.
std::pair<size_t, size_t> SplitExpression::find(std::string_view text, size_t from, MatchState& state) const {
  const size_t* place = pcre2_get_ovector_pointer(state.parts().match);
  size_t window = kWindow;
  bool is_counted = false;
  while (from < text.size()) {
    size_t end = std::min(text.size(), from + window);
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    const bool is_affordable = window == kWindow || state.budget.spend_steps(uint64_t{end - from} * kSteps);
    const int found = is_affordable
                          ? match(text.substr(from, end - from), end == text.size(), is_counted, state)
                          : PCRE2_ERROR_CALLOUT;
    if (found >= 0) return {from + place[0], from + place[1]};
    if (found == PCRE2_ERROR_CALLOUT) refuse(text, "more steps than its size allows");
    if (found == PCRE2_ERROR_MATCHLIMIT && !is_counted) {
      is_counted = true;
    } else if (found == PCRE2_ERROR_PARTIAL) {
      window *= place[0] == 0 ? 2 : 1;
      from += place[0];
    } else if (found == PCRE2_ERROR_NOMATCH) {
      from = end;
      window = kWindow;
      is_counted = false;
    } else {
      refuse(text, message_of(found));
    }
  }
  return {text.size(), text.size()};
}

}  // namespace genesis::text
