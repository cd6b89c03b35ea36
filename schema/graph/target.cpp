#include "schema/graph/target.h"

namespace genesis {

bool is_allowed(const KernelNames* disabled, std::string_view family, std::string_view way) {
  if (disabled == nullptr || disabled->empty()) return true;
  return !disabled->contains(way) && !disabled->contains(std::string(family) + "." + std::string(way));
}

}  // namespace genesis
