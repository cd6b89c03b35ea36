// Splits work on host memory among the cores this process may use: drawing initial values, converting and hashing tensors.
// Kernels use backends/cpu/parallel/parallel.h instead, because a session sets the number of their threads. `grain` alone
// determines how work is split, so results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace genesis {

// Calls body(first, last) for ranges of `grain` indices (the last range may be shorter), each exactly once, concurrently and in
// any order. After all threads are done, rethrows the first exception that a body threw.
void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t last)>& body);

// Starts a separate thread for work that waits or writes, outside the pool. Throws Error if the system cannot start one.
std::thread start_thread(std::function<void()> body);

}  // namespace genesis
