// Fits blocks of 32 values to the format q4m (schema/encoding/weight_format.h). The state format and calibrated rounding
// (schema/encoding/calibrated_rounding.h) use it.
#pragma once

#include <cstdint>

#include "schema/encoding/weight_format.h"

namespace genesis {

// The 16 values that a block with this word can hold: scale * (quant - zero) for quants 0 to 15.
struct Q4mGrid {
  float scale = 0, zero = 0, inverse = 0;  // inverse = 1 / scale; 0 if the scale is 0
  explicit Q4mGrid(uint16_t word);

  float value(float quant) const { return scale * (quant - zero); }
  // Returns the quant, an integer from 0 to 15, whose value is nearest to x.
  float quant(float x) const;
};

// Greatest magnitude that every block can hold, whatever its other values are.
inline constexpr float kGreatestQ4m = 1860;

// Returns the word whose grid has the least error among some candidates: the sum of importance[i] * (x[i] - nearest value)^2 over
// the 32 values of a block. Magnitudes of x are at most kGreatestQ4m; importances are positive and finite.
uint16_t fit_q4m(const float* x, const float* importance);

}  // namespace genesis
