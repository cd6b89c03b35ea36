// The line through a noisy curve.
#pragma once

#include <vector>

namespace genesis::viz {

// At every point a straight line is fitted to the neighbours on both sides (a local regression; near the ends
// to those there are), so that the result follows a curve that falls: an average of what came before lags
// behind it. Few neighbours at the start, where a loss falls fast, up to n / 20 on each side later. All
// values are finite.
std::vector<double> smooth(const std::vector<double>& values);

}  // namespace genesis::viz
