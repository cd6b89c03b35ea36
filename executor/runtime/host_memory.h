// How much memory the machine, or the container that it is, has left. Memory is handed out as it is touched,
// so asking for too much would not fail but have the process killed in the middle of its work.
#pragma once

#include <cstdint>
#include <optional>

namespace genesis {

// Bytes that can be touched yet without taking them from somebody; empty where the system does not say.
std::optional<int64_t> free_host_bytes();

}  // namespace genesis
