// The peak rates of the current GPU, measured now; profile and bench compare times with them.
#pragma once

namespace genesis::cuda {

struct Peaks {
  double f32_gflops = 0, bf16_gflops = 0;  // cuBLASLt's rate for products of large matrices
  double copy_gbps = 0;                    // bytes read plus bytes written
};

// Takes a tenth of a second, and 512 MiB of memory during that time (less if less is free). Throws Error.
Peaks measure_peaks();

}  // namespace genesis::cuda
