// What a device can do at most, measured on it. Used by profile and bench, through executor/runtime/roofline.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace genesis {

// How fast data moves that a cache of `bytes` can hold.
struct CacheSpeed {
  int64_t bytes = 0;
  double gbps = 0;
};

struct DevicePeaks {
  double f32_gflops = 0;  // matrix products, or multiply-adds in registers
  double low_gflops = 0;  // the same with operands of 16 bits
  double copy_gbps = 0;   // of data that no cache holds, bytes read plus bytes written
  double read_gbps = 0;   // of the same when it is only read; 0: not measured
  std::vector<CacheSpeed>
      caches;  // ascending by bytes, each slower than those before it; empty: not measured

  // The speed of the nearest memory that still holds data after `bytes` have been touched since its last use.
  double gbps(int64_t bytes) const {
    for (const CacheSpeed& cache : caches)
      if (bytes <= cache.bytes) return std::max({cache.gbps, copy_gbps, read_gbps});
    return std::max(copy_gbps, read_gbps);
  }
  // Keeps the larger of two measurements of each peak, since a disturbance only ever makes a measurement slower.
  void take_larger(const DevicePeaks& other);
};

}  // namespace genesis
