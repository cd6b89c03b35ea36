// The choice between keeping and widening weights that a file has quantized.
#pragma once

#include <cstdint>

namespace genesis::models::hugging_face {

// Weights that the library has a format for are kept: their values stay exactly, as q8 or q4, which take less memory and are not
// trained. All others are widened: they become the model's dtype, each value rounded once. kWidened widens all.
enum class Quantized : uint8_t { kKept, kWidened };

}  // namespace genesis::models::hugging_face
