// The text in front of every generated kernel: schema/ops/elementwise/formula_integer.h, formula_vocabulary.h,
// schema/ops/elementwise/formulas.h and fused_kit.h, put into the binary by the build (meson.build,
// fused_prelude.cpp.in).
#pragma once

namespace genesis::cuda {

extern const char* const kFusedPrelude;
extern const char* const kReduceKit;  // reduce_kit.h, for reductions
extern const char* const kScanKit;    // scan_kit.h, for running sums

}  // namespace genesis::cuda
