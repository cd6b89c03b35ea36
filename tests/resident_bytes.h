// Measures the memory of this process that is in RAM now, including pages of mapped files.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace genesis::testing {

inline int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace genesis::testing
