// A dimension: an integer polynomial over named symbols, such as 4, batch, 2*seq + 1 or batch*seq. Shape inference treats known
// and unknown sizes alike; symbols are bound to integers when a Session runs. A factor may also be a function of dimensions, such
// as floor_div(height+1,2), which is the height of an image behind a convolution that takes every second row. A Dim is always
// canonical: equal polynomials compare equal, and so do functions that differ only by the rules given beside each of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

  bool is_constant() const { return !terms_; }
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

  // Returns a / divisor, rounded down. Throws Error if the divisor is not positive. Multiples of the divisor, common factors and
  // nested divisions are reduced: floor_div(2*h+3,2) is h+1, and floor_div(floor_div(h+1,2)+1,2) is floor_div(h+3,4).
  static Dim floor_div(const Dim& a, int64_t divisor);
  static Dim ceil_div(const Dim& a, int64_t divisor);  // the same, rounded up
  // The result is one of the two if their order does not depend on the symbols, none of which is negative.
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);

  bool operator==(const Dim& other) const;

 private:
  struct Term {
    std::vector<std::string> symbols;  // sorted, never empty; names, and functions as to_string() writes them
    int64_t coefficient;               // never 0
    bool operator==(const Term&) const = default;
  };
  using Terms = std::vector<Term>;

  const Terms& terms() const;
  Terms& own_terms();  // may be changed; drop_no_terms() must follow
  void drop_no_terms();
  static Dim factor(std::string text);  // a dimension of one term with one factor, which is not checked
  void add_term(const Term& term);
  bool is_never_negative() const;

  int64_t constant_ = 0;
  // Sorted by symbols, and never changed where another Dim shares them: passes copy dimensions far more often than they compute
  // them. Null: none.
  std::shared_ptr<Terms> terms_;
};

// Integer arithmetic that throws Error("size overflows 64 bits") instead of wrapping.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

}  // namespace genesis
