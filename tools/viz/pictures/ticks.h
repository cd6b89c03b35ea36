// Round numbers for the axes of charts.
#pragma once

#include <string>
#include <vector>

namespace genesis::viz {

struct Tick {
  double at;
  std::string label;
};

// Returns 1, 2, 2.5 or 5 times a power of ten as the distance of three to six ticks from `low` to `high`. `whole`:
// for whole numbers, such as steps.
double decimal_step(double low, double high, bool whole = false);
// Returns the multiples of `step` from `low` to `high`.
std::vector<Tick> decimal_ticks(double low, double high, double step);

// Returns ticks from 0 to `high` bytes at multiples of a power of two, such as 0 B, 256 MiB, 512 MiB, 768 MiB, 1 GiB.
std::vector<Tick> byte_ticks(double high);

}  // namespace genesis::viz
