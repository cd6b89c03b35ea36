#include "tools/viz/pictures/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace genesis::viz {
namespace {

constexpr double kMaxSteps = 6;  // intervals between the lowest and the highest tick

std::vector<Tick> multiples(double low, double high, double step, auto&& label) {
  std::vector<Tick> ticks;
  if (!(step > 0) || !std::isfinite(step)) return ticks;
  const double slack = step * 1e-9;  // a bound that is a multiple of the step gets a tick
  for (double n = std::ceil((low - slack) / step); n * step <= high + slack && ticks.size() < 20; ++n) {
    const double at = n * step + 0.0;  // turns -0 into 0
    ticks.push_back({at, label(at)});
  }
  return ticks;
}

std::string decimal_label(double value, double step) {
  const double size = std::max(std::abs(value), step);
  if (size >= 1e7 || step < 1e-6) return fmt::format("{:g}", value);
  int digits = 0;  // has the same number of digits as the step
  for (double rest = step; digits < 8 && std::abs(rest - std::round(rest)) > 1e-6 * rest; rest *= 10)
    ++digits;
  return fmt::format("{:.{}f}", value, digits);
}

std::string byte_label(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:g} {}", bytes, kUnits[unit]);
}

}  // namespace

double decimal_step(double low, double high, bool whole) {
  const double least = (high - low) / kMaxSteps;
  if (!(least > 0) || !std::isfinite(least)) return 1;
  double power = std::pow(10.0, std::floor(std::log10(least)));
  if (whole) power = std::max(power, 1.0);
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= least * (1 - 1e-9) && !(whole && std::fmod(factor * power, 1.0) != 0))
      return factor * power;
  return 10 * power;
}

std::vector<Tick> decimal_ticks(double low, double high, double step) {
  return multiples(low, high, step, [step](double v) { return decimal_label(v, step); });
}

std::vector<Tick> byte_ticks(double high) {
  const double step = std::exp2(std::ceil(std::log2(std::max(high, 1.0) / kMaxSteps)));
  return multiples(0, high, std::max(step, 1.0), byte_label);
}

}  // namespace genesis::viz
