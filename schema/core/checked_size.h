// A count of bytes or elements whose arithmetic throws Error instead of wrapping. Files and authors determine sizes, so every
// size of scratch memory is computed with it: a product that wrapped would reserve a few bytes for a kernel that writes many.
#pragma once

#include "schema/core/dim.h"

namespace genesis {

class CheckedSize {
 public:
  CheckedSize(int64_t value) : value_(value) {}  // implicit: one checked operand makes an expression checked
  int64_t value() const { return value_; }

  friend CheckedSize operator+(CheckedSize a, CheckedSize b) { return checked_add(a.value_, b.value_); }
  friend CheckedSize operator*(CheckedSize a, CheckedSize b) { return checked_mul(a.value_, b.value_); }
  CheckedSize& operator+=(CheckedSize other) { return *this = *this + other; }
  CheckedSize& operator*=(CheckedSize other) { return *this = *this * other; }
  auto operator<=>(const CheckedSize&) const = default;

  // Returns how many runs of `length` it takes to hold this many.
  CheckedSize divided_up(int64_t length) const {
    return value_ / length + static_cast<int64_t>(value_ % length > 0);
  }
  // Returns the next multiple of `unit`.
  CheckedSize rounded_up(int64_t unit) const { return divided_up(unit) * unit; }

 private:
  int64_t value_;
};

}  // namespace genesis
