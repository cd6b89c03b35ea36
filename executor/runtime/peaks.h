// The peak throughput and bandwidth of a device, as measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace genesis {

// The speed of moving data that fits into a cache of `bytes` bytes.
struct CacheSpeed {
  int64_t bytes = 0;
  double gbps = 0;
};

struct DevicePeaks {
  double f32_gflops = 0;  // matrix products, or multiply-adds in registers
  double low_gflops = 0;  // the same with 16-bit operands
  double copy_gbps = 0;   // bytes read plus bytes written, for data that no cache holds
  double read_gbps = 0;   // bytes read, for data that no cache holds; 0: not measured
  std::vector<CacheSpeed>
      caches;  // ascending by bytes, each slower than those before it; empty: not measured

  // Returns the speed of the fastest memory level that still holds data after `bytes` other bytes have been touched.
  double gbps(int64_t bytes) const {
    for (const CacheSpeed& cache : caches)
      if (bytes <= cache.bytes) return std::max({cache.gbps, copy_gbps, read_gbps});
    return std::max(copy_gbps, read_gbps);
  }
  // Keeps the larger of two measurements of each peak, since a disturbance only ever makes a measurement slower.
  void take_larger(const DevicePeaks& other);
};

}  // namespace genesis
