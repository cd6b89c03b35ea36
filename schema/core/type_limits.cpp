#include "schema/core/type_limits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schema/core/error.h"
#include "schema/core/tensor.h"

namespace genesis {
namespace {

[[noreturn]] void fail_f16_range(double number, std::string_view remedy) {
  fail("{} is beyond the range of f16: {}", number, remedy);
}

}  // namespace

void check_type(const TensorType& type) {
  if (static_cast<int>(type.dtype) >= kNumDTypes)
    fail("dtype number {} is unknown", static_cast<int>(type.dtype));
  if (type.shape.rank() > kMaxRank) fail("rank {} is above the limit of {}", type.shape.rank(), kMaxRank);
  auto bytes = static_cast<int64_t>(size_of(type.dtype));
  for (const Dim& dim : type.shape) {
    if (!dim.is_constant()) continue;
    if (dim.value() < 0) fail("negative size in {}", type.to_string());
    // Skips a size of zero: strides and row counts are products of the other sizes, which must not overflow either.
    if (dim.value() > 0 && __builtin_mul_overflow(bytes, dim.value(), &bytes)) bytes = INT64_MAX;
    if (bytes > kMaxTensorBytes)
      fail("the sizes of {} multiply to more than {} bytes, the limit for one tensor (sizes of zero aside)",
           type.to_string(), kMaxTensorBytes);
  }
}

void check_amount(int64_t amount, std::string_view what) {
  if (amount > kMaxTensorBytes || amount < -kMaxTensorBytes)
    fail("{} is {}, expected a number between -{} and {}", what, amount, kMaxTensorBytes, kMaxTensorBytes);
}

void check_f16_range(const Tensor& from, const Tensor& to, std::string_view remedy) {
  const bool narrower = to.type().dtype == DType::f16 && from.type().dtype != DType::f16;
  if (!narrower) return;
  const auto narrowed = to.as<f16>();
  const auto is_finite = [](f16 x) { return std::isfinite(static_cast<float>(x)); };
  if (std::all_of(narrowed.begin(), narrowed.end(), is_finite)) return;
  const std::vector<double> before = from.to_doubles(), after = to.to_doubles();
  for (size_t i = 0; i < before.size(); ++i)
    if (std::isfinite(before[i]) && !std::isfinite(after[i])) fail_f16_range(before[i], remedy);
}

void check_f16_range(float from, float to, std::string_view remedy) {
  if (std::isfinite(from) && !std::isfinite(to)) fail_f16_range(from, remedy);
}

bool exceeds_f16(const Tensor& tensor) {
  if (tensor.empty_handle() || tensor.type().dtype != DType::f32) return false;
  return std::ranges::any_of(tensor.as<float>(), [](float x) {
    return std::isfinite(x) && !std::isfinite(static_cast<float>(f16(x)));
  });
}

}  // namespace genesis
