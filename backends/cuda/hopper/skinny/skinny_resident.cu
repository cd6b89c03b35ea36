// The implementation `skinny_resident` of linear: the rows of x that decoding a batch of texts has, against weights
// that fit into the shared memory of the whole chip, one block per multiprocessor (skinny_resident.h). Other nodes
// run by skinny_gemm.
#include "backends/cuda/gemm/few_rows/row_implementations.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/skinny/cluster_sums.h"
#include "backends/cuda/hopper/skinny/skinny_resident.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace skinny_resident {
namespace {

#ifdef GENESIS_HOPPER

// Adds the sums of all warps, which are in shared memory, and applies the epilogue.
template <class S, bool kSwiglu, class Norm>
__device__ __forceinline__ void finish_sums(const Arguments& a,
                                            const skinny_gemm::Finish<Bf16, S, kSwiglu>& finish,
                                            const skinny_gemm::SharedSums<S>& sums,
                                            const ClusterSums<S>& cluster, const float* squares) {
  const auto sum_of = [&](int i) { return sums.all_warps(i); };
  if constexpr (Norm::kIsThere) {
    const RowScale<S::kWarps, 8 * S::kEights> scale{squares, static_cast<float>(a.products.k),
                                                    a.products.eps};
    finish.run(a.products, sum_of, scale);
  } else if (a.parts == 1) {
    finish.run(a.products, sum_of, skinny_gemm::NoScale());
  } else {
    cluster.push_all(sums);
    finish.run(
        a.products, [&](int i) { return cluster.all(i); }, skinny_gemm::NoScale());
  }
}

#endif

template <int kTiles, int kColumns, bool kSwiglu, class Norm>
__global__ void __launch_bounds__(Sizes<kTiles, kColumns>::kAll, 1)
    product(const __grid_constant__ Maps maps, const __grid_constant__ Arguments a) {
#ifdef GENESIS_HOPPER
  using S = Sizes<kTiles, kColumns>;
  extern __shared__ __align__(kBoxAlignment) unsigned char shared_boxes[];
  __shared__ __align__(8) uint64_t barriers[2][S::kWarps], cluster_barrier;
  __shared__ float squares[S::kWarps][8 * kColumns];
  pdl_launch_dependents();
  const BlockRows rows = skinny_gemm::rows_of_block<kTiles, kSwiglu>(a.products, a.split, a.parts);
  const WarpSlice<kTiles, kColumns, kSwiglu> slice(a.slices, shared_boxes, barriers, rows.rank, a.parts);
  const ClusterSums<S> cluster{reinterpret_cast<float4*>(shared_boxes + S::kWarps * a.slices.warp_bytes),
                               &cluster_barrier, rows.rank, a.parts};
  if (a.parts > 1) cluster.begin();
  skinny_gemm::Finish<Bf16, S, kSwiglu> finish(a.products, rows, a.parts);
  const auto ask_weights = [&] {
    slice.ask_weights(maps, rows);
    finish.read_biases();
    if constexpr (Norm::kIsThere) slice.read_gains(a.products);
  };
  slice.make_barriers(maps);
  if (a.products.independent) ask_weights();
  pdl_wait();
  slice.ask_x(maps);
  if (!a.products.independent) ask_weights();
  finish.read_addends(a.products);
  slice.wait();
  float sums[kTiles][kColumns][4] = {};
  Norm norm;
  slice.multiply(norm, sums);
  norm.put(squares[threadIdx.x / kLanes]);
  __syncwarp();  // until all lanes have read the memory that the sums overwrite
  const skinny_gemm::SharedSums<S> shared_sums{shared_boxes, a.slices.warp_bytes};
  shared_sums.put(sums);
  __syncthreads();
  finish_sums<S, kSwiglu, Norm>(a, finish, shared_sums, cluster, squares[0]);
#endif
}

// --- host

// The split of a product over the chip.
struct Cut {
  int tiles = 0, parts = 1;
};

constexpr int kTileCounts[] = {2, 3, 5}, kMaxParts = 4;
constexpr int kMaxNormedColumns = 1;  // with more than eight rows, a norm is faster as a step of its own
constexpr int64_t kMaxSharedBytes = (227 << 10) - 2048;  // the rest is for barriers and squares

int64_t to_boxes(int64_t bytes) { return blocks_for(bytes, kBoxAlignment) * kBoxAlignment; }

int columns_of(int64_t m) { return m <= 8 ? 1 : m <= 16 ? 2 : 4; }

SliceSizes slices_of(const Cut& cut, const RowProducts& p) {
  SliceSizes s{};
  const int columns = columns_of(p.m);
  s.depths = static_cast<int>(blocks_for(p.k, kDepth));
  s.box_depths = static_cast<int>(blocks_for(s.depths, 8 * cut.parts)) | 1;
  const int rows = cut.tiles * kTile, sums = cut.tiles * columns * kLanes * 16;
  s.weight_bytes = static_cast<int>(to_boxes((p.swiglu ? rows / 2 : rows) * s.row_bytes()));
  const int boxes = (p.swiglu ? 2 : 1) * s.weight_bytes + (8 * columns + p.has_norm) * s.row_bytes();
  s.warp_bytes = static_cast<int>(to_boxes(std::max(boxes, sums)));
  return s;
}

int64_t shared_bytes(const Cut& cut, int columns, const SliceSizes& s) {
  return 8 * int64_t{s.warp_bytes} + (cut.parts > 1 ? cut.tiles * columns * kLanes * 16 : 0);
}

bool fits(const Cut& cut, const RowProducts& p) {
  const SliceSizes s = slices_of(cut, p);
  const RowSplit split(p, cut.tiles * kTile / (p.swiglu ? 2 : 1));
  return split.blocks * cut.parts <= planned_chip().multiprocessors && s.box_depths * kDepth <= 256 &&
         shared_bytes(cut, columns_of(p.m), s) <= kMaxSharedBytes;
}

// Tries few tiles first, because they spread over more of the chip, and few parts. Returns 0 tiles if the weights do
// not fit at once. A norm allows one part only: blocks that share k do not know the squares of whole rows.
Cut cut_of(const RowProducts& p) {
  for (const int tiles : kTileCounts)
    for (int parts = 1; parts <= (p.has_norm ? 1 : kMaxParts); parts *= 2)
      if (fits({tiles, parts}, p)) return {tiles, parts};
  return {};
}

bool make_maps(const RowProducts& p, const Cut& cut, const SliceSizes& s, Maps& maps) {
  const int box_columns = s.box_depths * kDepth, rows = cut.tiles * kTile / (p.swiglu ? 2 : 1);
  for (int i = 0; i < p.layers; ++i)
    if (!make_dense_map({p.layer[i].weight, p.layer[i].n, p.k, p.k, rows, box_columns}, maps.weight[i]))
      return false;
  return make_dense_map({p.x, p.m, p.k, p.lda, 8 * columns_of(p.m), box_columns}, maps.x);
}

template <int kTiles, int kColumns, bool kSwiglu, class Norm>
bool start_kernel(const Arguments& a, const Maps& maps, const Launch& launch) {
  const auto kernel = product<kTiles, kColumns, kSwiglu, Norm>;
  // Set for every device, because the current one may change.
  if (!has_hopper_kernel(reinterpret_cast<const void*>(kernel), kMaxSharedBytes)) return false;
  const auto shared = static_cast<size_t>(shared_bytes({kTiles, a.parts}, kColumns, a.slices));
  ClusterLaunch early(launch, static_cast<unsigned>(a.split.blocks * a.parts), Sizes<kTiles, kColumns>::kAll,
                      shared, static_cast<unsigned>(a.parts));
  cudaLaunchKernelEx(&early.config, kernel, maps, a);
  return true;
}

template <int kTiles, int kColumns, bool kSwiglu>
bool start_norm(const Arguments& a, const Maps& maps, const Launch& launch) {
  if constexpr (kColumns <= kMaxNormedColumns)
    if (a.products.has_norm)
      return start_kernel<kTiles, kColumns, kSwiglu, RowNorm<kColumns>>(a, maps, launch);
  return start_kernel<kTiles, kColumns, kSwiglu, NoNorm<kColumns>>(a, maps, launch);
}

template <int kTiles, int kColumns>
bool start_columns(const Arguments& a, const Maps& maps, const Launch& launch) {
  return a.products.swiglu ? start_norm<kTiles, kColumns, true>(a, maps, launch)
                           : start_norm<kTiles, kColumns, false>(a, maps, launch);
}

template <int kTiles>
bool start_tiles(const Arguments& a, const Maps& maps, const Launch& launch) {
  const int columns = columns_of(a.products.m);
  if (columns == 1) return start_columns<kTiles, 1>(a, maps, launch);
  if (columns == 2) return start_columns<kTiles, 2>(a, maps, launch);
  return start_columns<kTiles, 4>(a, maps, launch);
}

// Returns false and starts nothing if the driver makes no maps or the build has no code for the chip.
bool start_skinny_resident(const RowProducts& p, const Launch& launch) {
  const Cut cut = cut_of(p);
  if (!launch.can_use_pdl || cut.tiles == 0) return false;
  const RowSplit split(p, cut.tiles * kTile / (p.swiglu ? 2 : 1));
  const Arguments a{p, split, slices_of(cut, p), cut.parts};
  Maps maps;
  if (!make_maps(p, cut, a.slices, maps)) return false;
  if (cut.tiles == 2) return start_tiles<2>(a, maps, launch);
  if (cut.tiles == 3) return start_tiles<3>(a, maps, launch);
  return start_tiles<5>(a, maps, launch);
}

// Does not ask a GPU.
std::string why_not_skinny_resident(const RowProducts& p) {
  if (std::string why = why_no_skinny_rows(p, 2); !why.empty()) return why;
  if (p.dtype != DType::bf16) return "it takes bf16";
  if (p.has_norm && columns_of(p.m) > kMaxNormedColumns)
    return "a norm of so many rows that it is faster as a step of its own";
  return cut_of(p).tiles == 0 ? "weights that shared memory does not hold at once" : "";
}

// skinny_gemm starts where this kernel does not.
constexpr RowKernel kSkinnyResident = {.why_not = why_not_skinny_resident,
                                       .start = start_skinny_resident,
                                       .otherwise = start_skinny_gemm,
                                       .reads_biases_early = true};

}  // namespace
}  // namespace skinny_resident

KernelImpl linear_skinny_resident_implementation() {
  return row_implementation<skinny_resident::kSkinnyResident>("skinny_resident", why_no_hopper_here);
}

}  // namespace genesis::cuda
