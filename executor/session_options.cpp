#include "executor/session_options.h"

#include "executor/runtime/device.h"
#include "schema/core/error.h"

namespace genesis {

SessionOptions resolved(SessionOptions options) {
  if (options.max_plans < 1)
    fail("SessionOptions::max_plans is {}: at least one plan must be kept", options.max_plans);
  options.device = resolve_device(options.device);
  return options;
}

}  // namespace genesis
