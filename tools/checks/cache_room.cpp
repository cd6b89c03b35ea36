#include "tools/checks/cache_room.h"

#include "executor/runtime/device.h"
#include "executor/runtime/host_memory.h"
#include "schema/core/checked_size.h"

namespace genesis::tools {

void check_cache_fits(const Model& model, const std::string& device, const std::string& asked) {
  if (resolve_device(device) != "cpu") return;
  CheckedSize bytes = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kCache) bytes += state.type.bytes();
  check_host_has(bytes.value(), asked + ": a KV cache of this size");
}

}  // namespace genesis::tools
