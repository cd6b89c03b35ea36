#include "executor/session_options.h"

#include "executor/runtime/device.h"
#include "schema/core/error.h"

namespace genesis {

SessionOptions resolved(SessionOptions options) {
  if (options.max_plans < 1)
    fail("SessionOptions::max_plans is {}: at least one plan must be kept", options.max_plans);
  if (options.zero < 0 || options.zero > 3)
    fail(
        "SessionOptions::zero is {}: expected 0 (every rank keeps all), or ranks share 1 (the optimizer's "
        "states), 2 (gradients too), 3 (weights too)",
        options.zero);
  if (options.zero > 0 && !options.optimize)
    fail("SessionOptions::zero is {}, which needs the passes that SessionOptions::optimize leaves out",
         options.zero);
  options.device = resolve_device(options.device);
  return options;
}

}  // namespace genesis
