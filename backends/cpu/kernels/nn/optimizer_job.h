// One call of the optimizer's SIMD code: plain data, fixed for the call.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"
#include "schema/core/moment_codes.h"

namespace genesis::cpu {

enum class UpdateRule : uint8_t { kSgd, kAdam, kLion };

// Moments as codes with the scales of their blocks (schema/core/moment_codes.h). Outputs may be the inputs.
struct CodedMoment {
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  uint8_t* codes_out = nullptr;
  float* scales_out = nullptr;

  // Returns the moment from value `at` on, the first one of a block.
  CodedMoment from(int64_t at) const {
    const int64_t block = at / kMomentBlock;
    return {codes + at, scales + block, codes_out + at, scales_out + block};
  }
};

// An elementwise update of one parameter. `m` and `v` are f32, or f64 for an f64 parameter; or both are codes. Outputs may be the
// inputs.
struct UpdateJob {
  UpdateRule rule = UpdateRule::kSgd;
  DType dtype = DType::f32, gradient_dtype = DType::f32;
  const void *p = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  void *p_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  CodedMoment coded_m = {}, coded_v = {};  // used if they have codes
  int64_t n = 0;

  double lr = 0, scale = 1;     // `scale` multiplies the gradient
  double weight_decay = 0;      // times the parameter, added to the gradient
  double shrink = 1;            // multiplies the parameter: 1 - lr * weight decay if decoupled
  double beta1 = 0, beta2 = 0;  // sgd: momentum in beta1
  double dampening = 0;
  bool nesterov = false, first_step = false;
  double step_size = 0, inverse_root_correction = 1,
         eps = 0;  // adam: lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
};

}  // namespace genesis::cpu
