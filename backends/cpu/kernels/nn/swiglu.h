// The swiglu formula over contiguous elements, for kernels that have gate and up in the cache.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// One call of swiglu or its gradient, in any dtype. Elements at the same offset from gate and up belong together.
struct SwigluCall {
  const void *gate = nullptr, *up = nullptr, *dy = nullptr;
  void *d_gate = nullptr, *d_up = nullptr;
  void* y = nullptr;    // null in a gradient that does not also write the output
  bool stream = false;  // results are larger than the caches, aligned, and none overwrites an operand
};

// y = silu(gate) * up, all of one dtype; y may be gate or up. Each element has the same bits as with the swiglu kernel.
using SwigluFunction = void (*)(const void* gate, const void* up, void* y, int64_t n);

SwigluFunction swiglu_function(DType dtype);  // f64, f32, bf16, f16

}  // namespace genesis::cpu
