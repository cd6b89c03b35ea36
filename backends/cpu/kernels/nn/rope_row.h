// Plain data that rope.cpp passes to its code per instruction set. Invariant: x may be y, otherwise they do not overlap.
#pragma once

#include <cstdint>

#include "schema/ops/nn/rope.h"

namespace genesis::cpu {

// The pairs to rotate in `heads` adjacent heads of one time step.
struct RopeRow {
  const void* x;
  void* y;
  const void *cosines, *sines;  // one per pair; doubles for f64, else floats
  int64_t heads, size, pairs;
  RopeKind kind;
  bool stream;  // y is larger than the caches and its vectors are aligned
};

}  // namespace genesis::cpu
