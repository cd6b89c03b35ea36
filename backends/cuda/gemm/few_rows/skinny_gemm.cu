// A block has some 16-row tiles of weights; its eight warps, and those of the other blocks of its cluster, take turns
// along k, 32 elements at a time. Each lane has its own ring in shared memory, filled by asynchronous copies: 16
// bytes of two rows of every tile, and of one row of x for every eight rows. Before the kernels ahead have ended, the
// rings are filled with weights, and the rest is prefetched into the L2 cache, so that the memory does not wait for
// x. A block reads all of x from that cache: half as many bytes as weights if it has four tiles and 32 rows. At the
// end the sums are added in shared memory, first those of the warps, then those of the blocks, always in the same
// order.
#include <algorithm>

#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm/few_rows/skinny_gemm_feed.h"
#include "backends/cuda/gemm/few_rows/skinny_gemm_sums.h"

namespace genesis::cuda {
namespace skinny_gemm {
namespace {

template <class T, int kTiles, int kColumns, bool kSwiglu>
__global__ void __launch_bounds__(Sizes<kTiles, kColumns>::kAll, 2)
    product(const __grid_constant__ RowProducts p, const __grid_constant__ RowSplit split, int parts,
            int ahead) {
  using S = Sizes<kTiles, kColumns>;
  using Feed = LaneFeed<T, kTiles, kColumns, kResults<kSwiglu>>;
  extern __shared__ __align__(128) unsigned char shared[];
  pdl_launch_dependents();
  const BlockRows rows = rows_of_block<kTiles, kSwiglu>(p, split, parts);
  const Feed feed = feed_of<T, Feed, kSwiglu>(p, rows, shared);
  const int step = rows.rank * S::kWarps + static_cast<int>(threadIdx.x) / kLanes, stride = S::kWarps * parts;
  if (p.independent) {
#pragma unroll
    for (int d = 0; d < S::Ring::kStages; ++d) feed.ask_weights(d, step + d * stride);
    ask_into_cache<T, kTiles, kSwiglu>(p, rows, ahead);
  }
  pdl_wait();
  float sums[kTiles][kColumns][4] = {};
  multiply_all<T>(feed, p.independent, step, stride, sums);

  const SharedSums<S> shared_sums{shared, S::kRing};
  shared_sums.put(sums);
  Finish<T, S, kSwiglu> finish(p, rows, parts);
  finish.read_biases();
  finish.read_addends(p);
  __syncthreads();
  if (parts > 1) {
    shared_sums.add_warps();
    wait_for_cluster();
  }
  finish.run(
      p, [&](int i) { return shared_sums.all(i, parts); }, NoScale());
  if (parts > 1) wait_for_cluster();  // other blocks read this block's sums
}

// --- launch

// Returns the bytes of a row that a block prefetches into the L2 cache, which must have space for the prefetches of
// all kernels in flight.
int bytes_ahead(const RowProducts& p, int64_t rows, const SkinnyGemmCut& cut, int64_t element_bytes) {
  constexpr int64_t kCacheBytes = int64_t{20} << 20;
  if (!cut.asks_ahead) return 0;
  const int64_t share = blocks_for(p.k * element_bytes, 16 * cut.parts), most = kCacheBytes / 16 / cut.parts;
  return static_cast<int>(16 * std::min(share, most / rows));
}

template <class T, int kTiles, int kColumns, bool kSwiglu>
void start_kernel(const RowProducts& p, const Launch& launch, const SkinnyGemmCut& cut) {
  using S = Sizes<kTiles, kColumns>;
  const RowSplit split(p, kTiles * kResults<kSwiglu>);
  if (split.blocks == 0) return;
  const auto kernel = product<T, kTiles, kColumns, kSwiglu>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  ClusterLaunch early(launch, static_cast<unsigned>(split.blocks * cut.parts), S::kAll, S::kSharedBytes,
                      static_cast<unsigned>(cut.parts));
  const int ahead = bytes_ahead(p, split.blocks * kTiles * kTile, cut, sizeof(T));
  cudaLaunchKernelEx(&early.config, kernel, p, split, cut.parts, ahead);
}

template <class T, int kTiles, int kColumns>
void start_columns(const RowProducts& p, const Launch& launch, const SkinnyGemmCut& cut) {
  p.swiglu ? start_kernel<T, kTiles, kColumns, true>(p, launch, cut)
           : start_kernel<T, kTiles, kColumns, false>(p, launch, cut);
}

template <class T, int kTiles>
void start_tiles(const RowProducts& p, const Launch& launch, const SkinnyGemmCut& cut) {
  if (p.m <= 8) return start_columns<T, kTiles, 1>(p, launch, cut);
  if (p.m <= 16) return start_columns<T, kTiles, 2>(p, launch, cut);
  start_columns<T, kTiles, 4>(p, launch, cut);
}

template <class T>
void start_type(const RowProducts& p, const Launch& launch, const SkinnyGemmCut& cut) {
  if (cut.tiles == 2) return start_tiles<T, 2>(p, launch, cut);
  start_tiles<T, 4>(p, launch, cut);
}

// Returns whether the weights are so large that the library was at least as fast on an H100, because the cost of a
// launch no longer matters. A single weight is one launch with the library, too.
bool is_large(const RowProducts& p) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return p.rows_of_weights() * p.k * 2 > (p.layers == 1 ? 16 : 64) * kMiB;
}

}  // namespace
}  // namespace skinny_gemm

// Chosen by measurements on an H100: two tiles are fastest almost everywhere; four are if their blocks form one wave
// with two per multiprocessor.
SkinnyGemmCut skinny_gemm_cut(int64_t n, int64_t k) {
  constexpr int64_t kManyBlocks = 128;  // one per multiprocessor of a large chip
  const int64_t of_four = blocks_for(n, 4 * skinny_gemm::kTile);
  SkinnyGemmCut cut;
  cut.tiles = of_four >= kManyBlocks && of_four <= 2 * kManyBlocks ? 4 : 2;
  // Clusters end later than single blocks, so each warp must have a few steps, and eight blocks take longer than four
  // (896 rows of 4864: 1.03 ms per token of 32 texts, and 1.00 ms with four).
  while (cut.parts < 4 && blocks_for(n, cut.tiles * skinny_gemm::kTile) * cut.parts < kManyBlocks &&
         k >= 4 * 8 * skinny_gemm::kStep * cut.parts)
    cut.parts *= 2;
  return cut;
}

std::string why_no_skinny_rows(const RowProducts& p, int64_t fewest_rows) {
  constexpr int64_t kMaxRows = 32;
  if (p.wide) return "a result of another dtype";
  if (p.m < fewest_rows) return "so few rows that a GEMV reads them";
  if (!is_low_precision(p.dtype)) return "neither bf16 nor f16";
  if (p.m > kMaxRows) return "too many rows";
  if (p.k < 8 || p.k % 8 != 0 || p.k >= int64_t{1} << 24) return "rows that are no multiple of 16 bytes";
  if (skinny_gemm::is_large(p))
    return "weights so large that products of matrices read them at memory's speed";
  return "";
}

std::string why_no_skinny_gemm(const RowProducts& p) {
  if (p.has_norm) return "a norm, which every block would make again";
  return why_no_skinny_rows(p, max_gemv_rows(size_of(p.dtype)) + 1);
}

void run_skinny_gemm(const RowProducts& p, const Launch& launch, SkinnyGemmCut cut) {
  if (!launch.can_use_pdl) cut.parts = 1;  // older chips
  if (p.dtype == DType::bf16) return skinny_gemm::start_type<__nv_bfloat16>(p, launch, cut);
  skinny_gemm::start_type<__half>(p, launch, cut);
}

bool start_skinny_gemm(const RowProducts& p, const Launch& launch) {
  if (p.has_norm) return false;
  run_skinny_gemm(p, launch, skinny_gemm_cut(p.rows_of_weights(), p.k));
  return true;
}

}  // namespace genesis::cuda
