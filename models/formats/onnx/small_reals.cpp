#include "models/formats/onnx/small_reals.h"

#include <cmath>
#include <limits>

#include "schema/core/error.h"

namespace genesis::models::onnx {
namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  int most;               // the greatest finite code without a sign
  int nan, infinity;      // codes; -1: none
  bool is_unsigned_zero;  // code of -0 is NaN
};

Format format_of(OnnxElement element) {
  switch (element) {
    case OnnxElement::kF8E4M3FN:
      return {4, 3, 7, 0x7E, 0x7F, -1, false};
    case OnnxElement::kF8E4M3FNUZ:
      return {4, 3, 8, 0x7F, 0x80, -1, true};
    case OnnxElement::kF8E5M2:
      return {5, 2, 15, 0x7B, 0x7E, 0x7C, false};
    case OnnxElement::kF8E5M2FNUZ:
      return {5, 2, 16, 0x7F, 0x80, -1, true};
    case OnnxElement::kF4E2M1:
      return {2, 1, 1, 0x7, -1, -1, false};
    default:
      fail("element type {} is no real of 8 or 4 bits", static_cast<int64_t>(element));
  }
}

double magnitude_of(const Format& f, int code) {
  const int mantissa = code & ((1 << f.mantissa_bits) - 1), exponent = code >> f.mantissa_bits;
  const double fraction = mantissa / static_cast<double>(1 << f.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - f.bias) : std::ldexp(1 + fraction, exponent - f.bias);
}

constexpr int kExponentBias = 127;  // the code of an f8e8m0 is an exponent

SmallRealCodes exponent_codes(bool saturate, const std::string& round_mode) {
  SmallRealCodes codes;
  codes.nan_code = 255;
  codes.infinity_code = saturate ? 254 : 255;
  codes.overflow_code = saturate ? -1 : 255;
  for (int code = 0; code < (saturate ? 254 : 255); ++code) {
    const double low = std::ldexp(1.0, code - kExponentBias);
    const auto up = std::nextafter(static_cast<float>(low), std::numeric_limits<float>::infinity());
    if (round_mode == "up")
      codes.thresholds.push_back(up);
    else
      codes.thresholds.push_back(static_cast<float>(low * (round_mode == "down" ? 2 : 1.5)));
  }
  return codes;
}

}  // namespace

bool is_small_real(OnnxElement element) {
  return (element >= OnnxElement::kF8E4M3FN && element <= OnnxElement::kF8E5M2FNUZ) ||
         element == OnnxElement::kF4E2M1 || element == OnnxElement::kF8E8M0;
}

std::vector<float> values_of_codes(OnnxElement element) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values;
  if (element == OnnxElement::kF8E8M0) {
    for (int code = 0; code < 255; ++code) values.push_back(std::ldexp(1.0F, code - kExponentBias));
    values.push_back(kNaN);
    return values;
  }
  const Format f = format_of(element);
  const int half = 1 << (f.exponent_bits + f.mantissa_bits);
  for (int code = 0; code < 2 * half; ++code) {
    const int magnitude = code % half;
    auto value = static_cast<float>(magnitude_of(f, magnitude));
    if (magnitude > f.most) value = magnitude == f.infinity ? std::numeric_limits<float>::infinity() : kNaN;
    if (f.is_unsigned_zero && code == half) value = kNaN;
    values.push_back(code < half ? value : -value);
  }
  return values;
}

SmallRealCodes codes_of(OnnxElement element, bool saturate, const std::string& round_mode) {
  if (element == OnnxElement::kF8E8M0) return exponent_codes(saturate, round_mode);
  const Format f = format_of(element);
  SmallRealCodes codes;
  codes.sign_bit = 1 << (f.exponent_bits + f.mantissa_bits);
  codes.has_negative_zero = !f.is_unsigned_zero;
  codes.nan_code = f.nan >= 0 ? f.nan : codes.sign_bit;
  const bool saturates = saturate || f.nan < 0;
  for (int code = 0; code < f.most + (saturates ? 0 : 1); ++code) {
    const double middle = (magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2;
    const auto tie = static_cast<float>(middle);
    codes.thresholds.push_back(code % 2 != 0 ? tie
                                             : std::nextafter(tie, std::numeric_limits<float>::infinity()));
  }
  if (saturates) return codes;
  codes.overflow_code = f.infinity >= 0 ? f.infinity : f.nan;
  codes.infinity_code = codes.overflow_code;
  codes.infinity_sign = f.nan == codes.sign_bit ? 0 : codes.sign_bit;
  return codes;
}

}  // namespace genesis::models::onnx
