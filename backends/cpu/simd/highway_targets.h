// Which instruction sets the Highway kernels are compiled for: AVX-512, AVX2 and the baseline (SSE2 on x86-64). Included
// before <hwy/highway.h> by every file with SIMD code. Each target more costs compile time (SSE4, of use to CPUs older than
// AVX2 alone, a third of it) and buys nothing measurable. Bits 4 and 6 are AVX3_SPR and AVX3_ZEN4, which Highway 1.0.3 has no names for.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (1LL << 4) | (1LL << 6))
#endif
