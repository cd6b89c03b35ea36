#include "models/config_sizes.h"

#include "schema/core/error.h"

namespace genesis::models {

void check_size(std::string_view model, std::string_view setting, int64_t size, int64_t most) {
  if (size <= 0) fail("{}: {} is {}, it must be positive", model, setting, size);
  if (size > most) fail("{}: {} is {}, it must be {} at most", model, setting, size, most);
}

}  // namespace genesis::models
