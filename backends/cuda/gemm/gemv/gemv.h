// A GEMV: one row of x, or a few, against weights [n, k] of one layer or several. gemv.cu has the kernel for every
// chip, gemv_prefetch.cu the one for chips that copy into shared memory by themselves (compute capability 9.0) and
// start kernels early: there a block asks for all of its weights before it waits for x. Sums have the same order
// and the same bits in both.
#pragma once

#include "backends/cuda/gemm/gemm_plain.h"

namespace genesis::cuda {

struct Gemv {
  struct Layer {
    const void *weight = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // as y lies, which it may be; null: none
    void* y = nullptr;
    int64_t n = 0, ldc = 0;
    int64_t first_block = 0;  // filled in when they start
  };
  static constexpr int kMaxLayers = 8;

  int64_t m = 0, k = 0, lda = 0;
  int splits = 1;              // warps that share a group of weight rows; depends on k alone
  int layers = 1;              // of a swiglu: gate and up
  bool settled = false;        // all weights are there before the kernels ahead have ended
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

// False, and nothing started, where the weights do not fit.
bool try_prefetched_gemv(DType dtype, bool swiglu, Gemv gemv, const void* x, const GemvStart& start);

}  // namespace genesis::cuda
