// How large the type of a value may be. Everything that makes types asks here: files, shape rules, authors
// and the binding of symbols. Within these limits no product of some of the sizes of one tensor overflows,
// also where another of its sizes is zero and the tensor takes no memory at all.
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include "schema/core/shape.h"

namespace genesis {

class Tensor;

// The bytes of a tensor, sizes of zero aside. Far above any memory, and far enough below 2^63 for a kernel to
// hold a few copies.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 56;
// Of all values of an entry point together.
inline constexpr int64_t kMaxEntryBytes = int64_t{1} << 60;

// Throws Error that names the type when its dtype is unknown, its rank or a size is out of range, or its
// known sizes other than zero multiply to more than kMaxTensorBytes.
void check_type(const TensorType& type);

// Throws Error that names `what` when an amount that an attribute gives (a shift, a step, a padding) is
// beyond
// +-kMaxTensorBytes: within it, shape rules and kernels may add, negate and multiply it by a size's sign.
void check_amount(int64_t amount, std::string_view what);

// Whether a finite number is one in f32 too: beyond 3.4e38 it becomes an infinity there, and what is computed with it is none.
inline bool fits_f32(double number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

// Numbers beyond the range of f16 (65504) become infinities there, and a model with such a weight gives NaN. `to` is `from` in
// another dtype. Throws Error with the first number that is finite in `from` and not in f16; `remedy` says what to do.
void check_f16_range(const Tensor& from, const Tensor& to, std::string_view remedy);
// The same of single numbers: `to` is f16 of `from`.
void check_f16_range(float from, float to, std::string_view remedy);
// Whether a finite number of a tensor of f32 is beyond it. No tensor of another dtype is.
bool exceeds_f16(const Tensor& tensor);

}  // namespace genesis
