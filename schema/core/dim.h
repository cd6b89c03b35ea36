// A dimension: an integer polynomial over named symbols, such as 4, batch, 2*seq + 1 or batch*seq. Shape inference treats known
// and unknown sizes alike; symbols are bound to integers when a Session runs. A Dim is always canonical, so == is algebraic
// equality.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace genesis {

using Bindings = std::map<std::string, int64_t>;  // symbol -> size

class Dim {
 public:
  Dim(int64_t value = 0);  // implicit: sizes are written as plain integers
  static Dim symbol(std::string name);
  static Dim parse(std::string_view text);  // reads the format of to_string(); throws Error

  bool is_constant() const { return terms_.empty(); }
  std::optional<int64_t> constant() const;
  int64_t value() const;                             // throws Error for a symbolic dimension
  int64_t evaluate(const Bindings& bindings) const;  // throws Error for an unbound symbol or an overflow
  Dim substitute(const Bindings& bindings) const;    // replaces the given symbols, keeps the others
  void collect_symbols(std::vector<std::string>& names) const;
  std::string to_string() const;

  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  std::optional<Dim> divide_exact(
      const Dim& divisor) const;  // the divisor must be a constant, or a product of symbols and a constant

  bool operator==(const Dim&) const = default;

 private:
  struct Term {
    std::vector<std::string> symbols;  // sorted, never empty
    int64_t coefficient;               // never 0
    bool operator==(const Term&) const = default;
  };
  void add_term(const Term& term);

  int64_t constant_ = 0;
  std::vector<Term> terms_;  // sorted by symbols
};

// Integer arithmetic that throws Error("size overflows 64 bits") instead of wrapping.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

}  // namespace genesis
