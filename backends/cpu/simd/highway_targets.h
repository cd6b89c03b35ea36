// Selects the instruction sets for which Highway kernels are compiled: AVX-512, AVX2 and the baseline (SSE2 on x86-64). Every
// file with SIMD code includes this before <hwy/highway.h>. Each further target costs compile time (SSE4, useful only on CPUs
// older than AVX2, a third of it) without a measurable gain. Bits 4 and 6 are AVX3_SPR and AVX3_ZEN4, for which Highway 1.0.3 has
// no names.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (1LL << 4) | (1LL << 6))
#endif
