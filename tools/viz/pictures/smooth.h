// Smooths a noisy curve.
#pragma once

#include <vector>

namespace genesis::viz {

// Fits a straight line to the neighbors on both sides of every point (a local regression; near the ends to fewer
// neighbors). Unlike an average of earlier points, the result does not lag behind a falling curve. It uses few
// neighbors at the start, where a loss falls fast, and up to n / 20 on each side later. All values must be finite.
std::vector<double> smooth(const std::vector<double>& values);

}  // namespace genesis::viz
