#include "tools/checks/cache_room.h"

#include "executor/runtime/device.h"
#include "executor/runtime/host_memory.h"
#include "schema/graph/caches.h"

namespace genesis::tools {

void check_cache_fits(const Model& model, const std::string& device, const std::string& asked) {
  const std::optional<CacheSize> size = cache_size(model);
  if (size && resolve_device(device) == "cpu")
    check_host_has(cache_bytes(model, *size), asked + ": a KV cache of this size");
}

}  // namespace genesis::tools
