// Splits an f32 into two halves of 16 bits: the upper half is the number rounded to bf16, ties away from zero; the lower half
// holds the bits that rounding dropped. Joining them restores the f32 bit for bit; only a NaN may change its payload and keeps
// just its sign. A weight that is trained in f32 and read in bf16 therefore needs no second copy. Shared by the host and the
// kernels of every device.
#pragma once

#include <cstdint>

#include "schema/core/philox.h"

namespace genesis {

struct Halves {
  uint16_t upper, lower;
};

GENESIS_HOST_DEVICE inline Halves split_halves(uint32_t bits) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  // Sets the quiet bit of a NaN instead of rounding: rounding could carry into the sign, and without its lower bits a NaN could
  // become an infinity.
  const uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x8000u;
  return {static_cast<uint16_t>(rounded >> 16), static_cast<uint16_t>(is_nan ? 0u : bits)};
}

// Rounding went up exactly if the highest bit of the lower half is set.
GENESIS_HOST_DEVICE inline uint32_t join_halves(Halves halves) {
  const uint32_t lower = halves.lower;
  return (halves.upper - (lower >> 15)) << 16 | lower;
}

}  // namespace genesis
