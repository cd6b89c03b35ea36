// The text in front of every generated kernel: formula_integer.h and formulas.h of schema/ops/elementwise,
// formula_vocabulary.h and fused_kit.h, put into the binary by the build (meson.build, fused_prelude.cpp.in).
#pragma once

namespace genesis::cuda {

extern const char* const kFusedPrelude;
extern const char* const kReduceKit;  // reduce_kit.h, for reductions
extern const char* const kScanKit;    // scan_kit.h, for running sums

}  // namespace genesis::cuda
