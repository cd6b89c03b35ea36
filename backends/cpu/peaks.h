// Measures the physical limits of this machine at run time: arithmetic, memory and cache speed with all cores busy. Benches
// report their results as a fraction of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace genesis::cpu {

// Speed of a working set that stays in the caches: `bytes` in total, of which each core repeatedly reads or copies its own chunk.
// `gbps` is the better of reading and copying.
struct ResidentSpeed {
  int64_t bytes = 0;
  double gbps = 0;
};

struct Peaks {
  double fma_f32_gflops = 0;            // independent fused multiply-adds in registers, widest vectors
  double fma_bf16_gflops = 0;           // the same for bf16: AMX tiles, else AVX512_BF16, else 0
  double read_gbps = 0;                 // summing an array far larger than the caches
  double copy_gbps = 0;                 // copying such an array: bytes read plus bytes written
  std::vector<ResidentSpeed> resident;  // ascending by bytes
};

Peaks measure_peaks();

double measure_fma_f32();  // One measurement of a few milliseconds; take the best of several.
double measure_fma_bf16();

// Measures the reading speed of memory again and again, a few milliseconds each. A bench alternates it with the code under test,
// so that both see the same disturbances.
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
