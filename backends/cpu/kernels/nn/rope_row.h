// What kernels/nn/rope.cpp hands to its per-instruction-set code. Invariant: x may be y, else they do not
// overlap.
#pragma once

#include <cstdint>

#include "schema/ops/nn/rope.h"

namespace genesis::cpu {

// The pairs to rotate in `heads` neighbouring heads of one time.
struct RopeRow {
  const void* x;
  void* y;
  const void *cosines, *sines;  // of each pair; doubles for f64, else floats
  int64_t heads, size, pairs;
  RopeKind kind;
  bool stream;  // y is larger than the caches and its vectors are aligned
};

}  // namespace genesis::cpu
