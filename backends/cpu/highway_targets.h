// Which instruction sets the Highway kernels are compiled for: AVX-512, AVX2, SSE4 and the baseline. Included
// before <hwy/highway.h> by every file with SIMD code. Each target more costs compile time and buys nothing
// measurable.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
