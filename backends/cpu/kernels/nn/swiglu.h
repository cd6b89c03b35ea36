// The formula of swiglu over neighbouring elements, for kernels that have gate and up in the cache. Made by
// swiglu.cpp, used by matmul.cpp.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// One swiglu or gradient of it, of any dtype. Elements at one distance from gate and up belong together.
struct SwigluCall {
  const void *gate = nullptr, *up = nullptr, *dy = nullptr;
  void *d_gate = nullptr, *d_up = nullptr;
  void* y = nullptr;    // of a gradient: null unless it gives the output too
  bool stream = false;  // results are larger than the caches, aligned, and none is written over an operand
};

// y = silu(gate) * up, all of one dtype; y may be gate or up. An element's bits are those of the swiglu
// kernel.
using SwigluFunction = void (*)(const void* gate, const void* up, void* y, int64_t n);

SwigluFunction swiglu_function(DType dtype);  // f64, f32, bf16, f16

}  // namespace genesis::cpu
