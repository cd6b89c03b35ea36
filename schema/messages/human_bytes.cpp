#include "schema/messages/human_bytes.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace genesis {

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr size_t kLast = std::size(kUnits) - 1;
  // A number that two digits would round to 1024 is written as 1 of the next unit.
  size_t unit = 0;
  for (double limit = 1024; std::abs(bytes) >= limit && unit < kLast; ++unit) {
    bytes /= 1024;
    limit = 1023.995;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

}  // namespace genesis
