// GPU memory that this process holds, counted by runtime.cpp's device_memory() and shown by the tools.
#pragma once

#include <cstdint>

namespace genesis::cuda {

struct Allocated {
  int64_t bytes = 0, peak_bytes = 0;
};
Allocated allocated(int device);

}  // namespace genesis::cuda
