#include "models/formats/pt2/size_expression.h"

#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "schema/core/error.h"

namespace genesis::models::pt2 {
namespace {

constexpr int kMaxDepth = 64;

// A size divided by a number, as the factors of a resize make it.
struct Quotient {
  Dim dim;
  int64_t by = 1;
};

// Reads a factor that is a multiple of 1/64; nothing for others, whose products cannot be followed.
std::optional<Quotient> quotient_of(double number) {
  constexpr int64_t kParts = 64;
  const double parts = number * kParts;
  if (!(std::abs(parts) < 1e9) || parts != std::floor(parts)) return std::nullopt;
  const auto whole = static_cast<int64_t>(parts);
  const int64_t common = std::gcd(whole, kParts);
  return Quotient{whole / common, kParts / common};
}

class Parser {
 public:
  Parser(std::string_view text, const std::map<std::string, std::string>& names)
      : text_(text), names_(names) {}

  std::optional<Dim> whole() {
    const auto size = expression(0);
    if (at_ != text_.size()) fail("the size '{}' goes on where it should end", text_);
    return size && size->by == 1 ? std::optional(size->dim) : std::nullopt;
  }

 private:
  std::optional<Quotient> expression(int depth) {
    if (depth > kMaxDepth) fail("the size '{}' nests too deep", text_);
    const std::string_view function = word();
    expect('(');
    if (function == "Integer") {
      const Dim number = integer();
      expect(')');
      return Quotient{number};
    }
    if (function == "Symbol") return Quotient{symbol()};
    if (function == "Float") return quotient_of(real());
    std::vector<std::optional<Quotient>> operands;
    do operands.push_back(expression(depth + 1));
    while (take(','));
    expect(')');
    return apply(function, operands);
  }

  static std::optional<Quotient> apply(std::string_view function,
                                       const std::vector<std::optional<Quotient>>& operands) {
    for (const auto& operand : operands)
      if (!operand) return std::nullopt;
    Quotient result = *operands[0];
    if (function == "TruncToInt" || function == "FloorToInt")
      return Quotient{Dim::floor_div(result.dim, result.by)};
    if (function == "CeilToInt") return Quotient{Dim::ceil_div(result.dim, result.by)};
    if (function == "Pow") {
      const auto exponent = operands.size() == 2 ? operands[1]->dim.constant() : std::nullopt;
      if (result.by != 1 || operands[1]->by != 1 || !exponent || *exponent < 1 || *exponent > 8)
        return std::nullopt;
      for (int64_t i = 1; i < *exponent; ++i) result.dim = result.dim * operands[0]->dim;
      return result;
    }
    for (size_t i = 1; i < operands.size(); ++i) {
      const auto next = combined(function, result, *operands[i]);
      if (!next) return std::nullopt;
      result = *next;
    }
    return result;
  }

  static std::optional<Quotient> combined(std::string_view function, const Quotient& a, const Quotient& b) {
    if (function == "Mul") return Quotient{a.dim * b.dim, checked_mul(a.by, b.by)};
    if (a.by != 1 || b.by != 1) return std::nullopt;
    const auto result = combined(function, a.dim, b.dim);
    return result ? std::optional(Quotient{*result}) : std::nullopt;
  }

  // Returns nothing for an unknown function, and for a quotient by a size which is not exact.
  static std::optional<Dim> combined(std::string_view function, const Dim& a, const Dim& b) {
    if (function == "Add") return a + b;
    if (function == "Min") return Dim::min(a, b);
    if (function == "Max") return Dim::max(a, b);
    const bool divides = function == "FloorDiv" || function == "CleanDiv";
    if (!divides && function != "Mod" && function != "PythonMod") return std::nullopt;
    if (divides)
      if (const auto exact = a.divide_exact(b)) return exact;
    if (!b.is_constant() || b.value() <= 0) return std::nullopt;
    const Dim quotient = Dim::floor_div(a, b.value());
    return divides ? quotient : a - quotient * b;
  }

  // Reads '2.0', precision=53)
  double real() {
    expect('\'');
    double number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc()) fail("the size '{}' has no number where one should be", text_);
    at_ = text_.find(')', static_cast<size_t>(end - text_.data()));
    expect(')');
    return number;
  }

  // Reads 's77', positive=True, integer=True)
  Dim symbol() {
    expect('\'');
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("the size '{}' is cut short", text_);
    const std::string name(text_.substr(at_, end - at_));
    at_ = text_.find(')', end);
    expect(')');
    const auto known = names_.find(name);
    return Dim::symbol(known == names_.end() ? name : known->second);
  }
  Dim integer() {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc()) fail("the size '{}' has no number where one should be", text_);
    at_ = static_cast<size_t>(end - text_.data());
    return number;
  }
  std::string_view word() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail("the size '{}' is no expression of sympy: expected '{}'", text_, c);
  }

  std::string_view text_;
  const std::map<std::string, std::string>& names_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Dim> parse_size(std::string_view text, const std::map<std::string, std::string>& names) {
  return Parser(text, names).whole();
}

}  // namespace genesis::models::pt2
