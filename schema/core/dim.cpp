#include "schema/core/dim.h"

#include <algorithm>
#include <cctype>

#include "schema/core/error.h"
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

Dim Dim::symbol(std::string name) {
  const auto valid = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || !std::ranges::all_of(name, valid))
    fail(
        "'{}' is not a name for a symbolic dimension: use letters, digits and '_', not starting with a digit",
        name);
  Dim dim;
  dim.terms_.push_back({{std::move(name)}, 1});
  return dim;
}

std::optional<int64_t> Dim::constant() const {
  return is_constant() ? std::optional(constant_) : std::nullopt;
}

int64_t Dim::value() const {
  if (!is_constant())
    fail("dimension '{}' is symbolic where a known size is needed: bind its symbols", to_string());
  return constant_;
}

// Limits of a dimension: files are not trusted, and products grow exponentially. No real dimension comes near them.
constexpr size_t kMaxTerms = 64, kMaxDegree = 32;

void Dim::add_term(const Term& term) {
  if (term.symbols.size() > kMaxDegree)
    fail("a dimension is a product of {} symbols, the limit is {}", term.symbols.size(), kMaxDegree);
  auto at = std::ranges::lower_bound(terms_, term.symbols, {}, &Term::symbols);
  if (at == terms_.end() || at->symbols != term.symbols) {
    if (term.coefficient == 0) return;
    if (terms_.size() == kMaxTerms) fail("a dimension has more than {} terms", kMaxTerms);
    terms_.insert(at, term);
    return;
  }
  at->coefficient = checked_add(at->coefficient, term.coefficient);
  if (at->coefficient == 0) terms_.erase(at);
}

Dim Dim::operator+(const Dim& other) const {
  Dim sum = *this;
  sum.constant_ = checked_add(constant_, other.constant_);
  for (const Term& term : other.terms_) sum.add_term(term);
  return sum;
}

Dim Dim::operator-(const Dim& other) const { return *this + other * Dim(-1); }

Dim Dim::operator*(const Dim& other) const {
  Dim product(checked_mul(constant_, other.constant_));
  for (const Term& a : terms_) product.add_term({a.symbols, checked_mul(a.coefficient, other.constant_)});
  for (const Term& b : other.terms_) product.add_term({b.symbols, checked_mul(b.coefficient, constant_)});
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
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
  const bool single = divisor.terms_.size() + (divisor.constant_ != 0) == 1;
  if (!single) return std::nullopt;
  const int64_t coefficient = divisor.is_constant() ? divisor.constant_ : divisor.terms_[0].coefficient;
  // Only this quotient overflows.
  const auto overflows = [&](int64_t value) { return coefficient == -1 && value == INT64_MIN; };
  if (overflows(constant_) ||
      std::ranges::any_of(terms_, [&](const Term& term) { return overflows(term.coefficient); }))
    return std::nullopt;
  const std::vector<std::string> symbols =
      divisor.is_constant() ? std::vector<std::string>{} : divisor.terms_[0].symbols;
  if (constant_ % coefficient != 0 || (constant_ != 0 && !symbols.empty())) return std::nullopt;
  Dim quotient(constant_ / coefficient);
  for (const Term& term : terms_) {
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

Dim Dim::substitute(const Bindings& bindings) const {
  Dim result(constant_);
  for (const Term& term : terms_) {
    Dim product(term.coefficient);
    for (const std::string& name : term.symbols) {
      const auto bound = bindings.find(name);
      product = product * (bound == bindings.end() ? symbol(name) : Dim(bound->second));
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
  for (const Term& term : terms_)
    for (const std::string& name : term.symbols)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::string Dim::to_string() const {
  std::string text;
  for (const Term& term : terms_) {
    if (!text.empty()) text += '+';
    if (term.coefficient != 1) text += std::to_string(term.coefficient) + "*";
    for (size_t i = 0; i < term.symbols.size(); ++i) text += (i ? "*" : "") + term.symbols[i];
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_ != 0) text += "+" + std::to_string(constant_);
  return text;
}

Dim Dim::parse(std::string_view text) {
  const std::string whole(text);
  Dim sum;
  while (true) {
    const size_t plus = text.find('+');
    std::string_view term = text.substr(0, plus);
    Dim product(1);
    while (true) {
      const size_t star = term.find('*');
      const std::string_view factor = term.substr(0, star);
      const auto number = parse_number<int64_t>(factor);
      product = product * (number ? Dim(*number) : symbol(std::string(factor)));
      if (star == std::string_view::npos) break;
      term.remove_prefix(star + 1);
    }
    sum = sum + product;
    if (plus == std::string_view::npos) return sum;
    text.remove_prefix(plus + 1);
  }
}

}  // namespace genesis
