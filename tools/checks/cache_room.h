// Refuses a KV cache that this machine could never hold, when the user gave its size (--context, --batch).
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// Throws Error beginning with `asked`, such as "--context 100000", if the model's cache is larger than the free memory of the
// host. Checks only on the CPU: there a session does not check, because a cache takes memory only as it
// fills. On other devices the session checks it.
void check_cache_fits(const Model& model, const std::string& device, const std::string& asked);

}  // namespace genesis::tools
