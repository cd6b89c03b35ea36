#include "schema/core/dim.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "schema/core/error.h"
#include "schema/core/open_size.h"
#include "schema/core/parse_number.h"

namespace genesis {

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) fail("size {} + {} overflows 64 bits", a, b);
  return sum;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) fail("size {} * {} overflows 64 bits", a, b);
  return product;
}

Dim::Dim(int64_t value) : constant_(value) {}

bool Dim::operator==(const Dim& other) const {
  return constant_ == other.constant_ && (terms_ == other.terms_ || terms() == other.terms());
}

const Dim::Terms& Dim::terms() const {
  static const Terms none;
  return terms_ ? *terms_ : none;
}

Dim::Terms& Dim::own_terms() {
  if (!terms_ || terms_.use_count() > 1) terms_ = std::make_shared<Terms>(terms());
  return *terms_;
}

void Dim::drop_no_terms() {
  if (terms_ && terms_->empty()) terms_.reset();
}

Dim Dim::symbol(std::string name) {
  const auto valid = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || !std::ranges::all_of(name, valid))
    fail(
        "'{}' is not a name for a symbolic dimension: use letters, digits and '_', not starting with a digit",
        name);
  return factor(std::move(name));
}

Dim Dim::factor(std::string text) {
  Dim dim;
  dim.own_terms().push_back({{std::move(text)}, 1});
  return dim;
}

std::optional<int64_t> Dim::constant() const {
  return is_constant() ? std::optional(constant_) : std::nullopt;
}

int64_t Dim::value() const {
  if (!is_constant())
    throw OpenSize(fmt::format("dimension '{}' is symbolic where a known size is needed: bind its symbols",
                               to_string()));
  return constant_;
}

// Limits of a dimension: files are not trusted, and products grow exponentially. No real dimension comes near them.
constexpr size_t kMaxTerms = 64, kMaxDegree = 32, kMaxFunctionText = 1024;
constexpr int kMaxDepth = 256;  // more than a function of that many characters can nest

void Dim::add_term(const Term& term) {
  if (term.symbols.size() > kMaxDegree)
    fail("a dimension is a product of {} symbols, the limit is {}", term.symbols.size(), kMaxDegree);
  if (term.coefficient == 0) return;
  Terms& terms = own_terms();
  const auto at = std::ranges::lower_bound(terms, term.symbols, {}, &Term::symbols);
  if (at == terms.end() || at->symbols != term.symbols) {
    if (terms.size() == kMaxTerms) fail("a dimension has more than {} terms", kMaxTerms);
    terms.insert(at, term);
    return;
  }
  at->coefficient = checked_add(at->coefficient, term.coefficient);
  if (at->coefficient == 0) terms.erase(at);
  drop_no_terms();
}

Dim Dim::operator+(const Dim& other) const {
  if (is_constant() && !other.is_constant()) return other + *this;
  Dim sum = *this;
  sum.constant_ = checked_add(constant_, other.constant_);
  for (const Term& term : other.terms()) sum.add_term(term);
  return sum;
}

Dim Dim::operator-(const Dim& other) const { return *this + other * Dim(-1); }

Dim Dim::operator*(const Dim& other) const {
  Dim product(checked_mul(constant_, other.constant_));
  for (const Term& a : terms()) product.add_term({a.symbols, checked_mul(a.coefficient, other.constant_)});
  for (const Term& b : other.terms()) product.add_term({b.symbols, checked_mul(b.coefficient, constant_)});
  for (const Term& a : terms()) {
    for (const Term& b : other.terms()) {
      Term term{a.symbols, checked_mul(a.coefficient, b.coefficient)};
      term.symbols.insert(term.symbols.end(), b.symbols.begin(), b.symbols.end());
      std::ranges::sort(term.symbols);
      product.add_term(term);
    }
  }
  return product;
}

std::optional<Dim> Dim::divide_exact(const Dim& divisor) const {
  if (*this == divisor && !(divisor == Dim(0))) return Dim(1);
  const bool single = divisor.terms().size() + (divisor.constant_ != 0) == 1;
  if (!single) return std::nullopt;
  const int64_t coefficient = divisor.is_constant() ? divisor.constant_ : divisor.terms()[0].coefficient;
  // Only this quotient overflows.
  const auto overflows = [&](int64_t value) { return coefficient == -1 && value == INT64_MIN; };
  if (overflows(constant_) ||
      std::ranges::any_of(terms(), [&](const Term& term) { return overflows(term.coefficient); }))
    return std::nullopt;
  const std::vector<std::string> symbols =
      divisor.is_constant() ? std::vector<std::string>{} : divisor.terms()[0].symbols;
  if (constant_ % coefficient != 0 || (constant_ != 0 && !symbols.empty())) return std::nullopt;
  Dim quotient(constant_ / coefficient);
  for (const Term& term : terms()) {
    if (term.coefficient % coefficient != 0) return std::nullopt;
    if (!std::ranges::includes(term.symbols, symbols)) return std::nullopt;
    std::vector<std::string> rest;
    std::ranges::set_difference(term.symbols, symbols, std::back_inserter(rest));
    if (rest.empty())
      quotient.constant_ = checked_add(quotient.constant_, term.coefficient / coefficient);
    else
      quotient.add_term({rest, term.coefficient / coefficient});
  }
  return quotient;
}

namespace {

// A function of two dimensions, as a factor of a dimension.
struct Function {
  std::string_view name;  // a row of kFunctions
  Dim a, b;
};

Dim floor_div_by(const Dim& a, const Dim& divisor) { return Dim::floor_div(a, divisor.value()); }

constexpr struct {
  std::string_view name;
  Dim (*apply)(const Dim& a, const Dim& b);
} kFunctions[] = {{"floor_div", floor_div_by}, {"min", Dim::min}, {"max", Dim::max}};

Dim apply(const Function& function) {
  for (const auto& [name, apply] : kFunctions)
    if (name == function.name) return apply(function.a, function.b);
  fail("'{}' is not a function of dimensions: expected floor_div, min or max", function.name);
}

// Returns the position of the first `wanted` in `text` outside of parentheses, or npos.
size_t find_outside(std::string_view text, char wanted) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == wanted) return i;
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  }
  return std::string_view::npos;
}

Dim parse_sum(std::string_view text, int depth);

// Reads "floor_div(h+1,2)". Returns nothing for a text without parentheses.
std::optional<Function> parse_function(std::string_view text, int depth = 0) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  if (depth > kMaxDepth) fail("the dimension '{}' nests too deep", text);
  const std::string_view operands = text.back() == ')' ? text.substr(open + 1, text.size() - open - 2) : "";
  const size_t comma = find_outside(operands, ',');
  if (comma == std::string_view::npos)
    fail("'{}' is not a dimension: expected a function such as floor_div(h+1,2)", text);
  return Function{text.substr(0, open), parse_sum(operands.substr(0, comma), depth + 1),
                  parse_sum(operands.substr(comma + 1), depth + 1)};
}

Dim parse_factor(std::string_view text, int depth) {
  if (const auto number = parse_number<int64_t>(text)) return *number;
  const auto function = parse_function(text, depth);
  return function ? apply(*function) : Dim::symbol(std::string(text));
}

Dim parse_product(std::string_view text, int depth) {
  Dim product(1);
  while (true) {
    const size_t star = find_outside(text, '*');
    product = product * parse_factor(text.substr(0, star), depth);
    if (star == std::string_view::npos) return product;
    text.remove_prefix(star + 1);
  }
}

Dim parse_sum(std::string_view text, int depth) {
  Dim sum;
  while (true) {
    const size_t plus = find_outside(text, '+');
    sum = sum + parse_product(text.substr(0, plus), depth);
    if (plus == std::string_view::npos) return sum;
    text.remove_prefix(plus + 1);
  }
}

std::string text_of(const Function& function) {
  std::string text(function.name);
  text += "(" + function.a.to_string() + "," + function.b.to_string() + ")";
  if (text.size() > kMaxFunctionText)
    fail("a function of dimensions has {} characters, the limit is {}: {}...", text.size(), kMaxFunctionText,
         text.substr(0, 80));
  return text;
}

// Returns a / divisor rounded down, and sets `rest` to what is left, from 0 to divisor - 1.
int64_t divide(int64_t a, int64_t divisor, int64_t& rest) {
  rest = (a % divisor + divisor) % divisor;
  return (a - a % divisor) / divisor - (a % divisor < 0 ? 1 : 0);
}

}  // namespace

Dim Dim::floor_div(const Dim& a, int64_t divisor) {
  if (divisor <= 0)
    fail("the dimension {} is divided by {}: expected a positive number", a.to_string(), divisor);
  if (divisor > INT32_MAX)
    fail("the dimension {} is divided by {}, the limit is {}", a.to_string(), divisor, INT32_MAX);
  Dim whole, rest;
  whole.constant_ = divide(a.constant_, divisor, rest.constant_);
  int64_t common = divisor;
  for (const Term& term : a.terms()) {
    int64_t left = 0;
    whole.add_term({term.symbols, divide(term.coefficient, divisor, left)});
    rest.add_term({term.symbols, left});
    common = std::gcd(common, left);
  }
  if (rest.is_constant()) return whole;
  rest.constant_ /= common;
  for (Term& term : rest.own_terms()) term.coefficient /= common;
  divisor /= common;
  if (const Terms& left = rest.terms();
      left.size() == 1 && left[0].coefficient == 1 && left[0].symbols.size() == 1) {
    const auto inner = parse_function(left[0].symbols[0]);
    if (inner && inner->name == "floor_div")
      return whole +
             floor_div(inner->a + inner->b * Dim(rest.constant_), checked_mul(inner->b.value(), divisor));
  }
  return whole + factor(text_of({"floor_div", rest, divisor}));
}

Dim Dim::ceil_div(const Dim& a, int64_t divisor) { return floor_div(a + Dim(divisor - 1), divisor); }

bool Dim::is_never_negative() const {
  const auto is_name = [](const std::string& text) { return text.find('(') == std::string::npos; };
  return constant_ >= 0 && std::ranges::all_of(terms(), [&](const Term& term) {
           return term.coefficient > 0 && std::ranges::all_of(term.symbols, is_name);
         });
}

Dim Dim::min(const Dim& a, const Dim& b) {
  if ((b - a).is_never_negative()) return a;
  if ((a - b).is_never_negative()) return b;
  const bool in_order = a.to_string() < b.to_string();
  return factor(text_of({"min", in_order ? a : b, in_order ? b : a}));
}

Dim Dim::max(const Dim& a, const Dim& b) {
  if ((b - a).is_never_negative()) return b;
  if ((a - b).is_never_negative()) return a;
  const bool in_order = a.to_string() < b.to_string();
  return factor(text_of({"max", in_order ? a : b, in_order ? b : a}));
}

Dim Dim::substitute(const Bindings& bindings) const {
  if (is_constant()) return *this;
  Dim result(constant_);
  for (const Term& term : terms()) {
    Dim product(term.coefficient);
    for (const std::string& text : term.symbols) {
      if (const auto function = parse_function(text)) {
        product = product *
                  apply({function->name, function->a.substitute(bindings), function->b.substitute(bindings)});
        continue;
      }
      const auto bound = bindings.find(text);
      product = product * (bound == bindings.end() ? factor(text) : Dim(bound->second));
    }
    result = result + product;
  }
  return result;
}

int64_t Dim::evaluate(const Bindings& bindings) const {
  const Dim result = substitute(bindings);
  if (!result.is_constant())
    fail("dimension '{}' has unbound symbols: give sizes for them", result.to_string());
  return result.constant_;
}

void Dim::collect_symbols(std::vector<std::string>& names) const {
  for (const Term& term : terms())
    for (const std::string& text : term.symbols) {
      if (const auto function = parse_function(text)) {
        function->a.collect_symbols(names);
        function->b.collect_symbols(names);
      } else if (std::ranges::find(names, text) == names.end()) {
        names.push_back(text);
      }
    }
}

std::string Dim::to_string() const {
  std::string text;
  for (const Term& term : terms()) {
    if (!text.empty()) text += '+';
    if (term.coefficient != 1) text += std::to_string(term.coefficient) + "*";
    for (size_t i = 0; i < term.symbols.size(); ++i) text += (i ? "*" : "") + term.symbols[i];
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_ != 0) text += "+" + std::to_string(constant_);
  return text;
}

Dim Dim::parse(std::string_view text) { return parse_sum(text, 0); }

}  // namespace genesis
