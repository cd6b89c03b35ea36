// Splits work on host memory that needs no order among the cores this process may use: drawing initial values, converting
// and hashing tensors. Used by schema/, builder/ and passes/; kernels, whose threads a session counts, have
// backends/cpu/parallel/parallel.h. What comes of it never depends on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace genesis {

// body(first, last) for ranges of `grain` indices, the last perhaps shorter, each once, in any order and at the same time.
// The first exception that a body throws is thrown again here, when all threads are done.
void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t last)>& body);

// A thread of its own for work beside all that: it waits for something, or writes. Throws Error where the system gives none.
std::thread start_thread(std::function<void()> body);

}  // namespace genesis
