// The sine and cosine of an angle in double precision, as rope needs them. The angle is reduced in double precision,
// so that positions around a million are rotated as exactly as small ones.
#pragma once

#include <cstdint>
#include <numbers>

namespace genesis::cuda {

__device__ inline void sine_and_cosine(double angle, double& sine, double& cosine) {
  sincos(angle, &sine, &cosine);
}
__device__ inline void sine_and_cosine(double angle, float& sine, float& cosine) {
  const double turns = rint(angle * (2 / std::numbers::pi));
  const auto x =
      static_cast<float>((angle - turns * 1.57079632679489655800) - turns * 6.12323399573676603587e-17);
  float s, c;
  sincosf(x, &s, &c);
  const auto quadrant = static_cast<int64_t>(turns);
  sine = quadrant & 1 ? c : s;
  cosine = quadrant & 1 ? s : c;
  if (quadrant & 2) sine = -sine;
  if ((quadrant + 1) & 2) cosine = -cosine;
}

}  // namespace genesis::cuda
