// Limits on the type of a value. All code that creates types checks them: files, shape rules, authors and the binding of symbols.
// Within these limits no product of some of the sizes of one tensor overflows, even if another of its sizes is zero and the
// tensor takes no memory at all.
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include "schema/core/shape.h"

namespace genesis {

class Tensor;

// Greatest bytes of a tensor, not counting sizes of zero. Far above any memory, and far enough below 2^63 for a kernel to add up
// a few of them.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 56;
// Greatest bytes of all values of an entry point together.
inline constexpr int64_t kMaxEntryBytes = int64_t{1} << 60;

// Throws Error that names the type if its dtype is unknown, its rank or a size is out of range, or its known sizes other than
// zero multiply to more than kMaxTensorBytes.
void check_type(const TensorType& type);

// Throws Error that names `what` if an amount given by an attribute (a shift, a step, a padding) is beyond +-kMaxTensorBytes.
// Within this range, shape rules and kernels may add and negate it, and multiply it by the sign of a size.
void check_amount(int64_t amount, std::string_view what);

// Returns true if a finite number is also finite in f32. Beyond 3.4e38 it becomes an infinity there, and results computed from it
// are not finite either.
inline bool fits_f32(double number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

// Checks that converting to f16 kept all numbers finite: beyond the range of f16 (65504) they become infinities, and a model with
// such a weight gives NaN. `to` is `from` in another dtype. Throws Error with the first number that is finite in `from` but not
// in f16; `remedy` says what to do.
void check_f16_range(const Tensor& from, const Tensor& to, std::string_view remedy);
// The same for one number: `to` is `from` in f16.
void check_f16_range(float from, float to, std::string_view remedy);
// Returns true if an f32 tensor has a finite number beyond the range of f16; false for tensors of any other dtype.
bool exceeds_f16(const Tensor& tensor);

}  // namespace genesis
