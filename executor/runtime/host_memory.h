// Tells how much memory the machine, or the container of this process, has left. The system commits memory on first touch:
// allocating too much does not fail, but gets the process killed later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace genesis {

// Returns the bytes that this process can still touch without taking memory from other processes, within its limit on address
// space (ulimit -v); empty if the system does not tell.
std::optional<int64_t> free_host_bytes();

// Throws Error that says how much memory `what` takes and how much is left, if the host has fewer than `bytes` bytes. Call it
// before an allocation whose size comes from a user or a file.
void check_host_has(int64_t bytes, std::string_view what);

// Returns page-aligned host memory whose pages have all been touched; null if the host has fewer than `bytes` + `more` bytes
// left.
std::shared_ptr<std::byte> try_allocate_touched(int64_t bytes, int64_t more);

}  // namespace genesis
