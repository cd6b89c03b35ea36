// GPU memory that this process holds, counted by runtime.cpp's device_memory() and shown by the tools.
#pragma once

#include <cstdint>

namespace genesis::cuda {

struct Allocated {
  int64_t bytes = 0, peak_bytes = 0;
};
Allocated allocated(int device);
// Counts memory that was taken by other means than runtime.h's; negative bytes were given back.
void count_allocation(int device, int64_t bytes);

}  // namespace genesis::cuda
