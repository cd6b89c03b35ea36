// A KV cache whose size a user typed (--context, --batch) and that this machine could never fill.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// Throws Error that begins with `asked`, such as "--context 100000", where the caches of `model` are larger than the memory that a host
// has left. On the CPU a session does not ask, since a cache takes memory as it fills; on other devices it does, and this says nothing.
void check_cache_fits(const Model& model, const std::string& device, const std::string& asked);

}  // namespace genesis::tools
