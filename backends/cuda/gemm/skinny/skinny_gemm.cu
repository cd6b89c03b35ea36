// A block has some 16-row tiles of weights; its eight warps, and those of the other blocks of its cluster, take turns
// along k, 32 elements at a time. Each lane has its own ring in shared memory, filled by asynchronous copies: 16
// bytes of two rows of every tile, and of one row of x for every eight rows. Before the kernels ahead have ended, the
// rings are filled with weights, and the rest is prefetched into the L2 cache, so that the memory does not wait for
// x. A block reads all of x from that cache: half as many bytes as weights if it has four tiles and 32 rows. At the
// end the sums are added in shared memory, first those of the warps, then those of the blocks, always in the same
// order.
#include "backends/cuda/gemm/skinny/skinny_gemm.h"

#include <algorithm>

#include "backends/cuda/gemm/skinny/skinny_gemm_feed.h"
#include "backends/cuda/gemm/skinny/skinny_gemm_sums.h"

namespace genesis::cuda {
namespace skinny_gemm {
namespace {

template <class T, int kTiles, int kColumns, bool kSwiglu>
__global__ void __launch_bounds__(Sizes<kTiles, kColumns>::kAll, 2)
    product(const __grid_constant__ Gemv gemv, const T* x, int parts, int ahead) {
  using S = Sizes<kTiles, kColumns>;
  using Feed = LaneFeed<T, kTiles, kColumns, kResults<kSwiglu>>;
  extern __shared__ __align__(128) unsigned char shared[];
  pdl_launch_dependents();
  const BlockRows rows = rows_of_block<kTiles, kSwiglu>(gemv, parts);
  const Feed feed = feed_of<T, Feed, kSwiglu>(gemv, x, rows, shared);
  const int step = rows.rank * S::kWarps + static_cast<int>(threadIdx.x) / kLanes, stride = S::kWarps * parts;
  if (gemv.independent) {
#pragma unroll
    for (int d = 0; d < S::Ring::kStages; ++d) feed.ask_weights(d, step + d * stride);
    ask_into_cache<T, kTiles, kSwiglu>(gemv, rows, ahead);
  }
  pdl_wait();
  float sums[kTiles][kColumns][4] = {};
  multiply_all<T>(feed, gemv.independent, step, stride, sums);

  const SharedSums<S> shared_sums{shared, S::kRing};
  shared_sums.put(sums);
  Finish<T, S, kSwiglu> finish(gemv, rows, parts);
  finish.read_biases();
  finish.read_addends(gemv);
  __syncthreads();
  if (parts > 1) {
    shared_sums.add_warps();
    wait_for_cluster();
  }
  finish.run(gemv, [&](int i) { return shared_sums.all(i, parts); }, NoScale());
  if (parts > 1) wait_for_cluster();  // other blocks read this block's sums
}

// --- launch

// Returns the bytes of a row that a block prefetches into the L2 cache, which must have space for the prefetches of
// all kernels in flight.
int bytes_ahead(const Gemv& gemv, int64_t rows, const SkinnyGemmCut& cut, int64_t element_bytes) {
  constexpr int64_t kCacheBytes = int64_t{20} << 20;
  if (!cut.asks_ahead) return 0;
  const int64_t share = blocks_for(gemv.k * element_bytes, 16 * cut.parts),
                most = kCacheBytes / 16 / cut.parts;
  return static_cast<int>(16 * std::min(share, most / rows));
}

template <class T, int kTiles, int kColumns, bool kSwiglu>
void start_kernel(Gemv gemv, const void* x, const Launch& launch, const SkinnyGemmCut& cut) {
  using S = Sizes<kTiles, kColumns>;
  const int64_t blocks = gemv.number_blocks(kTiles * kResults<kSwiglu>, kSwiglu);
  if (blocks == 0) return;
  const auto kernel = product<T, kTiles, kColumns, kSwiglu>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  ClusterLaunch early(launch, static_cast<unsigned>(blocks * cut.parts), S::kAll, S::kSharedBytes,
                      static_cast<unsigned>(cut.parts));
  const int ahead = bytes_ahead(gemv, blocks * kTiles * kTile, cut, sizeof(T));
  cudaLaunchKernelEx(&early.config, kernel, gemv, static_cast<const T*>(x), cut.parts, ahead);
}

template <class T, int kTiles, int kColumns>
void start_columns(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                   const SkinnyGemmCut& cut) {
  swiglu ? start_kernel<T, kTiles, kColumns, true>(gemv, x, launch, cut)
         : start_kernel<T, kTiles, kColumns, false>(gemv, x, launch, cut);
}

template <class T, int kTiles>
void start_tiles(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                 const SkinnyGemmCut& cut) {
  if (gemv.m <= 8) return start_columns<T, kTiles, 1>(swiglu, gemv, x, launch, cut);
  if (gemv.m <= 16) return start_columns<T, kTiles, 2>(swiglu, gemv, x, launch, cut);
  start_columns<T, kTiles, 4>(swiglu, gemv, x, launch, cut);
}

template <class T>
void start_type(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                const SkinnyGemmCut& cut) {
  if (cut.tiles == 2) return start_tiles<T, 2>(swiglu, gemv, x, launch, cut);
  start_tiles<T, 4>(swiglu, gemv, x, launch, cut);
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

std::optional<std::string> skinny_gemm_decline(DType dtype, int64_t m, int64_t k) {
  if (dtype != DType::bf16 && dtype != DType::f16) return "neither bf16 nor f16";
  if (m < 1 || m > kMaxSkinnyRows) return "too many rows";
  if (k < 8 || k % 8 != 0 || k >= int64_t{1} << 24) return "rows that are no multiple of 16 bytes";
  return std::nullopt;
}

void run_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                     SkinnyGemmCut cut) {
  if (!launch.can_use_pdl) cut.parts = 1;  // older chips
  if (dtype == DType::bf16) return skinny_gemm::start_type<__nv_bfloat16>(swiglu, gemv, x, launch, cut);
  skinny_gemm::start_type<__half>(swiglu, gemv, x, launch, cut);
}

bool start_skinny_gemm(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch) {
  if (gemv.norm) return false;
  int64_t n = 0;
  for (int i = 0; i < gemv.layers; ++i) n += gemv.layer[i].n;
  run_skinny_gemm(dtype, swiglu, gemv, x, launch, skinny_gemm_cut(n, gemv.k));
  return true;
}

}  // namespace genesis::cuda
