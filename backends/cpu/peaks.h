// The physical limits of this machine, measured now: what every bench divides by. All cores work at once,
// through TBB.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace genesis::cpu {

// How fast data is read or copied again and again that takes up `bytes` in all, each core its own part.
struct ResidentSpeed {
  int64_t bytes = 0;
  double gbps = 0;
};

struct Peaks {
  double fma_f32_gflops = 0;            // independent fused multiply-adds in registers, widest vectors
  double fma_bf16_gflops = 0;           // the same of bf16: AMX tiles, else the dot product, else 0
  double read_gbps = 0;                 // summing an array far larger than the caches
  double copy_gbps = 0;                 // copying one, bytes read plus bytes written
  std::vector<ResidentSpeed> resident;  // ascending by bytes
};

Peaks measure_peaks();

double measure_fma_f32();  // one quick measurement, a few milliseconds; take the best of several
double measure_fma_bf16();

// Quick measurements of reading, a few milliseconds each, to take turns with what is held against them.
class ReadMeter {
 public:
  ReadMeter();
  ~ReadMeter();
  double gbps() const;

 private:
  struct Array;
  std::unique_ptr<const Array> array_;
};

}  // namespace genesis::cpu
