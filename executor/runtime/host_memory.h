// How much memory the machine, or the container that it is, has left. Memory is handed out as it is touched,
// so asking for too much would not fail but have the process killed in the middle of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace genesis {

// Bytes that can be touched yet without taking them from somebody; empty where the system does not say.
std::optional<int64_t> free_host_bytes();

// Page-aligned memory of the host, its pages there already; null when that and `more` bytes would leave the
// host short.
std::shared_ptr<std::byte> try_allocate_touched(int64_t bytes, int64_t more);

}  // namespace genesis
