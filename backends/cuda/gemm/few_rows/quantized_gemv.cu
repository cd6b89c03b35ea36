// Quantized weights on every chip: a block quantizes x, then each of its warps multiplies a few rows of weights.
#include "backends/cuda/gemm/few_rows/quantized_gemv_kit.h"
#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm/few_rows/row_result.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8,
              kRows = 4;  // rows of weights that a warp has in flight; for a swiglu, half of them are up's
constexpr int64_t kMaxShared = 96 << 10;  // bytes of x

struct WeightRow {
  const Words* quants;
  const uint16_t* scales;
};

template <WeightFormat kFormat, int M>
__device__ __forceinline__ void multiply(const RowProducts& p, const WeightRow (&rows)[kRows],
                                         const SharedX& x, float (&sums)[M * kRows]) {
  constexpr int kEach = kValuesOfPack<kFormat>;
  const int64_t packs = p.k / kEach;
  for (int64_t pack = threadIdx.x % kLanes; pack < packs; pack += kLanes) {
    Words w[kRows];
    uint16_t words[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = __ldcs(rows[r].quants + pack);
      words[r] = rows[r].scales[pack * kEach / kQuantBlock];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (m >= static_cast<int>(p.m)) break;
      Words bytes[kEach / 16];
      ByteBlock block;
      x.read<kFormat>(m, pack * kEach, bytes, block);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const WeightBlock<kFormat> of_w(words[r]);
        sums[m * kRows + r] += dot_block<kFormat>(w[r], bytes, block, of_w) * (of_w.scale * block.scale);
      }
    }
  }
}

// A warp computes kRows results of a layer, or half as many of gate and up, whose rows alternate.
template <class T, WeightFormat kFormat, int M>
__global__ void __launch_bounds__(kWarps* kLanes)
    quantized_gemv(const __grid_constant__ RowProducts p, const __grid_constant__ RowSplit split) {
  extern __shared__ __align__(16) unsigned char shared_rows[];
  __shared__ XSquares squares;
  begin_in_order();
  const SharedX bytes(shared_rows, p.m, p.k);
  bring_x<T, M>(p, split.aligned, bytes, squares);
  __syncthreads();
  const int which = split.layer_of(p, p.swiglu, blockIdx.x);
  const RowProducts::Layer& layer = p.layer[which];
  const int results = p.swiglu ? kRows / 2 : kRows, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t first = ((static_cast<int64_t>(blockIdx.x) - split.first[which]) * kWarps + warp) * results;
  if (first >= layer.n) return;
  const int64_t blocks = p.k / kQuantBlock;
  WeightRow rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const RowProducts::Layer& of = p.layer[p.swiglu ? r % 2 : which];
    const int64_t row = min(first + (p.swiglu ? r / 2 : r), layer.n - 1);
    rows[r] = {static_cast<const Words*>(of.weight) + row * (p.k / kValuesOfPack<kFormat>),
               static_cast<const uint16_t*>(of.scales) + row * blocks};
  }
  constexpr int kSums = M * kRows, kLanesOfSum = kLanes / kSums;
  const int sum = static_cast<int>(threadIdx.x) % kLanes / kLanesOfSum, m = sum / kRows, r = sum % kRows;
  const int64_t row = first + (p.swiglu ? r / 2 : r);
  RowResult<T> result;
  if (static_cast<int>(threadIdx.x) % kLanesOfSum == 0 && m < static_cast<int>(p.m) && row < layer.n &&
      !(p.swiglu && r % 2 != 0))
    result.read(p, layer, p.swiglu, m, row);
  float sums[kSums] = {};
  multiply<kFormat, M>(p, rows, bytes, sums);
  const float own = sum_by_lanes(sums) * scale_of_row<M>(p, squares, m), up = from_above(own, kLanesOfSum);
  if (result.at >= 0) result.finish(p, layer, p.swiglu, own, up);
}

template <class T, WeightFormat kFormat, int M>
void start_rows(const RowProducts& p, const RowSplit& split, const Launch& launch) {
  const auto kernel = quantized_gemv<T, kFormat, M>;
  const auto shared = static_cast<size_t>(byte_rows_bytes(p.m, p.k));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMaxShared));
  start_with_pdl(launch, kernel, static_cast<unsigned>(split.blocks), kWarps * kLanes, shared, p, split);
}

template <class T, WeightFormat kFormat>
void start_format(const RowProducts& p, const RowSplit& split, const Launch& launch) {
  if (p.m <= 1) return start_rows<T, kFormat, 1>(p, split, launch);
  if (p.m <= 4) return start_rows<T, kFormat, 4>(p, split, launch);
  start_rows<T, kFormat, 8>(p, split, launch);
}

template <class T>
void start_type(const RowProducts& p, const RowSplit& split, const Launch& launch) {
  if (p.format == WeightFormat::kQ8) return start_format<T, WeightFormat::kQ8>(p, split, launch);
  if (p.format == WeightFormat::kQ4) return start_format<T, WeightFormat::kQ4>(p, split, launch);
  start_format<T, WeightFormat::kQ4m>(p, split, launch);
}

}  // namespace

bool begins_at_eights(const RowProducts& p) {
  const uintptr_t eight = 8 * size_of(p.dtype);
  return reinterpret_cast<uintptr_t>(p.x) % eight == 0 && reinterpret_cast<uintptr_t>(p.norm) % eight == 0;
}

std::string why_no_quantized_gemv(const RowProducts& p) {
  constexpr int64_t kMaxRows = 8;
  if (p.m < 1 || p.m > kMaxRows) return "more rows of x than the kernel's registers hold, or none";
  if (p.k < 1 || byte_rows_bytes(p.m, p.k) > kMaxShared)
    return "rows of x that are longer than shared memory holds";
  return "";
}

bool start_quantized_gemv(const RowProducts& p, const Launch& launch) {
  RowSplit split(p, kWarps * (p.swiglu ? kRows / 2 : kRows));
  split.aligned = begins_at_eights(p);
  if (p.dtype == DType::bf16)
    start_type<__nv_bfloat16>(p, split, launch);
  else if (p.dtype == DType::f16)
    start_type<__half>(p, split, launch);
  else
    start_type<float>(p, split, launch);
  return true;
}

}  // namespace genesis::cuda
