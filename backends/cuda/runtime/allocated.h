// What this process holds of a GPU's memory. Counted by runtime.cpp's allocate(), shown by the tools.
#pragma once

#include <cstdint>

namespace genesis::cuda {

struct Allocated {
  int64_t bytes = 0, peak_bytes = 0;
};
Allocated allocated(int device);

}  // namespace genesis::cuda
