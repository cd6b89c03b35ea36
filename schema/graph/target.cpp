#include "schema/graph/target.h"

#include "schema/core/error.h"

namespace genesis {
namespace {

constexpr ChipRates kChips[] = {
    {"h100", 620e12, 45e12, 420e12, 2.55e12, 2.6},
    {"h200", 580e12, 45e12, 430e12, 3.6e12, 2.6},
};

}  // namespace

bool is_allowed(const KernelNames* disabled, std::string_view family, std::string_view implementation) {
  if (disabled == nullptr || disabled->empty()) return true;
  return !disabled->contains(implementation) &&
         !disabled->contains(std::string(family) + "." + std::string(implementation));
}

const ChipRates& chip_rates(std::string_view name) {
  for (const ChipRates& chip : kChips)
    if (chip.name == name) return chip;
  fail("there are no rates of a chip '{}': known are h100 and h200", name);
}

}  // namespace genesis
