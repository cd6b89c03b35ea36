// Up to 32 rows of x against weights [n, k] of one layer or several: what decoding a batch of texts does. As a GEMV it
// waits for memory, but so many multiplications need the tensor cores. Weights are their first operand, 16 rows to a
// tile, and rows of x the second, so that a lane's share of both is what it copies into shared memory itself: nobody
// waits for anybody until the sums are there.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

constexpr int64_t kMaxSkinnyRows = 32;

// How a product is laid over the chip.
struct SkinnyGemmCut {
  int tiles = 2;  // of 16 rows of weights, for each warp: 2 or 4
  int parts = 1;  // blocks of a cluster, which share k: 1, 2 or 4; 1 on chips without clusters
  // Independent weights are asked into the second-level cache before the kernels ahead have ended (compute capability 9.0).
  bool asks_ahead = true;
};

// By the sizes alone: `n` of all layers together.
SkinnyGemmCut skinny_gemm_cut(int64_t n, int64_t k);

// bf16 or f16; empty: the product runs.
std::optional<std::string> skinny_gemm_decline(DType dtype, int64_t m, int64_t k);

// `gemv` says what is computed; its `splits` is not looked at, it has no norm, and `activation` goes with no swiglu.
// Everything starts at a multiple of 16 bytes.
void run_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                     SkinnyGemmCut cut);
// As skinny_gemm_cut() has it. False, and nothing started: there is a norm.
bool start_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch);

}  // namespace genesis::cuda
