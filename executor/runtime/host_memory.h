// How much memory the machine, or the container that the process runs in, has left. The system hands out memory when it is first
// touched: allocating too much does not fail, but gets the process killed in the middle of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace genesis {

// Bytes that this process can still touch without other processes losing theirs, within its limit on address space (ulimit -v); empty
// where the system does not say.
std::optional<int64_t> free_host_bytes();

// Throws Error that says how much `what` takes and how much is left, where the host has fewer than `bytes`. Asked before memory is
// allocated whose size a user typed or a file says.
void check_host_has(int64_t bytes, std::string_view what);

// Page-aligned memory of the host whose pages have all been touched; null where the host has less than `bytes` and `more` bytes
// left.
std::shared_ptr<std::byte> try_allocate_touched(int64_t bytes, int64_t more);

}  // namespace genesis
