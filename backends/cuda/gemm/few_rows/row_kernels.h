// The kernels for few rows of x, except Hopper's resident one (hopper/skinny). Each has its limits, which depend on sizes and
// attributes alone, and its start.
//   gemv           1 to 8 rows, in 16 bits up to 4; runs on every chip.
//   gemv_prefetch  The same rows, and one row with a norm, on chips with bulk copies into shared memory and early kernel
//                  starts (compute capability 9.0): a block loads all of its weights before it waits for x. It adds in the
//                  order of gemv, so it gives the same bits.
//   quantized_gemv         1 to 8 rows against q8, q4 or q4m weights, read in their encoding. Each block first quantizes x to
//                          bytes (device/byte_product.h) in shared memory, after the norm if there is one. It runs on
//                          every chip and for every k.
//   quantized_gemv_stream  The same on the chips of gemv_prefetch, added in a different order: a warp has its next weights
//                          in flight while it multiplies.
//   skinny_gemm    Up to 32 rows in 16 bits on tensor cores, on every chip. Like a GEMV it is limited by memory, but it has
//                  so many multiplications that it needs tensor cores. The weights are the first operand, 16 rows per
//                  tile, and the rows of x the second. A lane then needs exactly the elements of both that it copies into
//                  shared memory itself, so that no thread waits for another until the sums are ready.
#pragma once

#include <string>

#include "backends/cuda/gemm/few_rows/row_products.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

// Starts all layers of `p` in one launch. Returns false and starts nothing if the kernel does not support the call. x and all
// buffers of the layers start at multiples of 16 bytes; for quantized weights only quants and scales need to.
using StartRows = bool (*)(const RowProducts& p, const Launch& launch);

// --- GEMVs

// Most rows of x. With more than four rows in 16 bits, tensor cores are faster (6 texts of Qwen2.5-0.5B on an H100:
// 1.41 ms per token, and 0.77 ms with tensor cores).
constexpr int64_t max_gemv_rows(size_t element_bytes) { return element_bytes == 4 ? 8 : 4; }

// Returns the warps that share k. This depends on k alone, so a layer has the same bits alone and with other layers.
int gemv_splits(DType dtype, int64_t k);

// The functions why_no_...() return why the kernel does not take the problem; empty if it does.
std::string why_no_gemv_rows(const RowProducts& p);  // the limits of both GEMVs
std::string why_no_gemv(const RowProducts& p);
bool start_gemv(const RowProducts& p, const Launch& launch);

std::string why_no_prefetched_gemv(const RowProducts& p);
bool start_prefetched_gemv(const RowProducts& p, const Launch& launch);

// --- quantized weights

std::string why_no_quantized_gemv(const RowProducts& p);
bool start_quantized_gemv(const RowProducts& p, const Launch& launch);  // always starts

// Returns whether x and the norm may be read eight elements at once.
bool begins_at_eights(const RowProducts& p);

// Launch parameters; the default values are fast on an H100.
struct WeightStream {
  int warps = 8;              // warps per block, 16 at most
  int blocks = 1;             // blocks per multiprocessor
  int rows = 4;               // rows of weights that a warp has at once: 2 or 4
  int ring_bytes = 96 << 10;  // bytes of weights that a block has in flight
  int part_bytes = 2048;      // bytes of a row that are copied at once
};

// Includes the limits of quantized_gemv; assumes a chip with as much shared memory as an H100.
std::string why_no_streamed_gemv(const RowProducts& p);
// Does not start if a buffer does not start at a multiple of eight elements, or if the chip is older.
bool start_streamed_gemv(const RowProducts& p, const Launch& launch, const WeightStream& stream);
inline bool start_streamed_gemv(const RowProducts& p, const Launch& launch) {
  return start_streamed_gemv(p, launch, WeightStream{});
}

// --- skinny GEMM

// The split of a product over the chip.
struct SkinnyGemmCut {
  int tiles = 2;  // tiles of 16 rows of weights per warp: 2 or 4
  int parts = 1;  // blocks of a cluster, which share k: 1, 2 or 4; 1 on chips without clusters
  // Prefetch independent weights into the L2 cache before the kernels ahead have ended (compute capability 9.0).
  bool asks_ahead = true;
};

// Chooses the split by sizes alone; `n` is the total of all layers.
SkinnyGemmCut skinny_gemm_cut(int64_t n, int64_t k);

// The limits of skinny_gemm and of hopper/skinny, with at least `fewest_rows` of x.
std::string why_no_skinny_rows(const RowProducts& p, int64_t fewest_rows);
std::string why_no_skinny_gemm(const RowProducts& p);
void run_skinny_gemm(const RowProducts& p, const Launch& launch, SkinnyGemmCut cut);
// Runs with the split of skinny_gemm_cut(). Does not start if there is a norm.
bool start_skinny_gemm(const RowProducts& p, const Launch& launch);

}  // namespace genesis::cuda
