// An f32 as two halves of 16 bits: the upper is the number rounded to bf16, ties away from zero; the lower
// holds the bits that rounding dropped. Together they are the f32, bit for bit, but for a NaN, which stays a
// NaN of its sign. So a weight that is trained in f32 and read in bf16 needs no copy of itself. Shared by the
// host and kernels of every device.
#pragma once

#include <cstdint>

#include "schema/core/philox.h"

namespace genesis {

struct Halves {
  uint16_t upper, lower;
};

GENESIS_HOST_DEVICE inline Halves split_halves(uint32_t bits) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  // A half added to a NaN might carry into the sign; without its lower bits it must not become an infinity.
  const uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x8000u;
  return {static_cast<uint16_t>(rounded >> 16), static_cast<uint16_t>(is_nan ? 0u : bits)};
}

// Rounding went up where the lower half's first bit is set.
GENESIS_HOST_DEVICE inline uint32_t join_halves(Halves halves) {
  const uint32_t lower = halves.lower;
  return (halves.upper - (lower >> 15)) << 16 | lower;
}

}  // namespace genesis
