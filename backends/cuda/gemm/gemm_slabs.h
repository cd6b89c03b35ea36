// A few rows of x against weights, for chips that copy into shared memory by themselves (compute capability
// 9.0) and start kernels early: a block asks for all of its weights before it waits for x. Used by
// gemm_few_rows.cu, whose sums have the same order and the same bits.
#pragma once

#include "backends/cuda/gemm/gemm_plain.h"

namespace genesis::cuda {

struct Slabs {
  struct Layer {
    const void *weight = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // as y lies, which it may be
    void* y = nullptr;
    int64_t n = 0, ldc = 0;
    int64_t first_block = 0;  // filled in when they start
  };
  static constexpr int kMaxLayers = 8;

  int64_t m = 0, k = 0, lda = 0;
  int splits = 1;              // warps that share the rows of a group; depends on k alone
  int layers = 1;              // of a swiglu: gate and up
  bool settled = false;        // all weights are there before the kernels ahead have ended
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

// False, and nothing started, where they do not fit.
bool try_slabs(DType dtype, bool swiglu, Slabs slabs, const void* x, const FewRowsStart& start);

}  // namespace genesis::cuda
