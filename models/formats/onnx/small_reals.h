// Reals of 8 and 4 bits of ONNX: their values, and the thresholds between them.
#pragma once

#include <string>
#include <vector>

#include "schema/file/other_formats/onnx/tensor_data.h"

namespace genesis::models::onnx {

bool is_small_real(OnnxElement element);

// Returns the value of each code.
std::vector<float> values_of_codes(OnnxElement element);

struct SmallRealCodes {
  std::vector<float> thresholds;  // code i + 1 begins at thresholds[i]
  int64_t sign_bit = 0;           // added for negative numbers; 0: there are none
  bool has_negative_zero = true;
  int64_t overflow_code = -1;  // the code for magnitudes above all thresholds; -1: the greatest code
  int64_t infinity_code = -1;  // -1: infinities are magnitudes like others
  int64_t infinity_sign = 0;   // added to both of these for negative numbers
  int64_t nan_code = 0;
};
// Ties go to the even code. `round_mode` is for f8e8m0: "up", "down" or "nearest".
SmallRealCodes codes_of(OnnxElement element, bool saturate, const std::string& round_mode);

}  // namespace genesis::models::onnx
