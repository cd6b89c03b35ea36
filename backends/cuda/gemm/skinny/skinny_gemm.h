// Up to 32 rows of x against weights [n, k] of one layer or several, as in decoding a batch of texts. Like a GEMV it
// is limited by memory, but it has so many multiplications that it needs tensor cores. The weights are the first
// operand, 16 rows per tile, and the rows of x the second. A lane then needs exactly the elements of both that it
// copies into shared memory itself, so that no thread waits for another until the sums are ready.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

constexpr int64_t kMaxSkinnyRows = 32;

// The split of a product over the chip.
struct SkinnyGemmCut {
  int tiles = 2;  // tiles of 16 rows of weights per warp: 2 or 4
  int parts = 1;  // blocks of a cluster, which share k: 1, 2 or 4; 1 on chips without clusters
  // Prefetch independent weights into the L2 cache before the kernels ahead have ended (compute capability 9.0).
  bool asks_ahead = true;
};

// Chooses the split by sizes alone; `n` is the total of all layers.
SkinnyGemmCut skinny_gemm_cut(int64_t n, int64_t k);

// Returns why the product cannot run; requires bf16 or f16.
std::optional<std::string> skinny_gemm_decline(DType dtype, int64_t m, int64_t k);

// Runs the product that `gemv` describes. Its `splits` is ignored, it has no norm, and no `activation` together with
// a swiglu. All buffers start at multiples of 16 bytes.
void run_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                     SkinnyGemmCut cut);
// Runs with the split of skinny_gemm_cut(). Returns false and starts nothing if there is a norm.
bool start_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch);

}  // namespace genesis::cuda
