// One call of the optimizer's SIMD code: plain data that stays as it is during the call. Used by optimizer.cpp only.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

enum class UpdateRule : uint8_t { kSgd, kAdam, kLion };

// Elementwise over one parameter; `m` and `v` are f32, or f64 with an f64 parameter. Outputs may be the
// inputs.
struct UpdateJob {
  UpdateRule rule = UpdateRule::kSgd;
  DType dtype = DType::f32, gradient_dtype = DType::f32;
  const void *p = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  void *p_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  int64_t n = 0;

  double lr = 0, scale = 1;     // scale: of the gradient
  double weight_decay = 0;      // added to the gradient
  double shrink = 1;            // of the parameter: 1 - lr * weight decay where that is decoupled
  double beta1 = 0, beta2 = 0;  // sgd: momentum in beta1
  double dampening = 0;
  bool nesterov = false, first_step = false;
  double step_size = 0, inverse_root_correction = 1,
         eps = 0;  // adam: lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
};

}  // namespace genesis::cpu
