// The limits of the current GPU, measured now: what profile and bench hold times against.
#pragma once

namespace genesis::cuda {

struct Peaks {
  double f32_gflops = 0, bf16_gflops = 0;  // the library's products of large matrices
  double copy_gbps = 0;                    // bytes read plus bytes written
};

// Takes a tenth of a second, and 512 MiB for that long (less where less is free). Throws Error.
Peaks measure_peaks();

}  // namespace genesis::cuda
