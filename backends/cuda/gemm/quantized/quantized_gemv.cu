#include "backends/cuda/gemm/quantized/quantized_gemv.h"

#include "backends/cuda/gemm/quantized/quantized_gemv_kit.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8,
              kRows = 4;  // rows of weights that a warp has in flight; for a swiglu, half of them are up's
constexpr int64_t kMaxShared = 96 << 10;  // bytes of x

struct WeightRow {
  const Words* quants;
  const __half* scales;
};

template <WeightFormat kFormat, int M>
__device__ __forceinline__ void multiply(const QuantizedGemv& gemv, const WeightRow (&rows)[kRows],
                                         const SharedX& x, float (&sums)[M * kRows]) {
  constexpr int kEach = kValuesOfPack<kFormat>;
  const int64_t packs = gemv.k / kEach;
  for (int64_t pack = threadIdx.x % kLanes; pack < packs; pack += kLanes) {
    Words w[kRows];
    __half scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = __ldcs(rows[r].quants + pack);
      scale[r] = rows[r].scales[pack * kEach / kQuantBlock];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (m >= gemv.m) break;
      Words bytes[kEach / 16];
      ByteBlock block;
      x.read<kFormat>(m, pack * kEach, bytes, block);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sums[m * kRows + r] += static_cast<float>(dot_bytes<kFormat>(w[r], bytes, block)) *
                               (__half2float(scale[r]) * block.scale);
    }
  }
}

// A warp computes kRows results of a layer, or half as many of gate and up, whose rows alternate.
template <class T, WeightFormat kFormat, int M>
__global__ void __launch_bounds__(kWarps* kLanes)
    quantized_gemv(const __grid_constant__ QuantizedGemv gemv, const T* x) {
  extern __shared__ __align__(16) unsigned char shared_rows[];
  __shared__ XSquares squares;
  begin_in_order();
  const SharedX bytes(shared_rows, gemv.m, gemv.k);
  bring_x<T, M>(gemv, x, bytes, squares);
  __syncthreads();
  int which = 0;
  if (!gemv.swiglu)
    while (which + 1 < gemv.layers && blockIdx.x >= gemv.layer[which + 1].first) ++which;
  const QuantizedGemv::Layer& layer = gemv.layer[which];
  const int results = gemv.swiglu ? kRows / 2 : kRows, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t first = ((static_cast<int64_t>(blockIdx.x) - layer.first) * kWarps + warp) * results;
  if (first >= layer.n) return;
  const int64_t blocks = gemv.k / kQuantBlock;
  WeightRow rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const QuantizedGemv::Layer& of = gemv.layer[gemv.swiglu ? r % 2 : which];
    const int64_t row = min(first + (gemv.swiglu ? r / 2 : r), layer.n - 1);
    rows[r] = {static_cast<const Words*>(of.quants) + row * (gemv.k / kValuesOfPack<kFormat>),
               static_cast<const __half*>(of.scales) + row * blocks};
  }
  constexpr int kSums = M * kRows, kLanesOfSum = kLanes / kSums;
  const int sum = static_cast<int>(threadIdx.x) % kLanes / kLanesOfSum, m = sum / kRows, r = sum % kRows;
  const int64_t row = first + (gemv.swiglu ? r / 2 : r);
  QuantizedResult<T> result;
  if (static_cast<int>(threadIdx.x) % kLanesOfSum == 0 && m < gemv.m && row < layer.n &&
      !(gemv.swiglu && r % 2 != 0))
    result.ask(gemv, layer, m, row);
  float sums[kSums] = {};
  multiply<kFormat, M>(gemv, rows, bytes, sums);
  const float own = sum_by_lanes(sums) * scale_of_row<M>(gemv, squares, m), up = from_above(own, kLanesOfSum);
  if (result.at >= 0) result.finish(gemv, layer, own, up);
}

template <class T, WeightFormat kFormat, int M>
void start_rows(const QuantizedGemv& gemv, int64_t blocks, const void* x, const Launch& launch) {
  const auto kernel = quantized_gemv<T, kFormat, M>;
  const auto shared = static_cast<size_t>(byte_rows_bytes(gemv.m, gemv.k));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMaxShared));
  start_with_pdl(launch, kernel, static_cast<unsigned>(blocks), kWarps * kLanes, shared, gemv,
                 static_cast<const T*>(x));
}

template <class T, WeightFormat kFormat>
void start_format(const QuantizedGemv& gemv, int64_t blocks, const void* x, const Launch& launch) {
  if (gemv.m <= 1) return start_rows<T, kFormat, 1>(gemv, blocks, x, launch);
  if (gemv.m <= 4) return start_rows<T, kFormat, 4>(gemv, blocks, x, launch);
  start_rows<T, kFormat, 8>(gemv, blocks, x, launch);
}

template <class T>
void start_type(const QuantizedGemv& gemv, int64_t blocks, const void* x, const Launch& launch) {
  if (gemv.format == WeightFormat::kQ8) return start_format<T, WeightFormat::kQ8>(gemv, blocks, x, launch);
  start_format<T, WeightFormat::kQ4>(gemv, blocks, x, launch);
}

}  // namespace

bool begins_at_eights(DType dtype, const QuantizedGemv& gemv, const void* x) {
  const uintptr_t eight = 8 * size_of(dtype);
  return reinterpret_cast<uintptr_t>(x) % eight == 0 && reinterpret_cast<uintptr_t>(gemv.norm) % eight == 0;
}

const char* why_no_quantized_gemv(int64_t m, int64_t k) {
  if (m < 1 || m > QuantizedGemv::kMaxRows) return "more rows of x than the kernel's registers hold, or none";
  if (k < 1 || byte_rows_bytes(m, k) > kMaxShared)
    return "rows of x that are longer than shared memory holds";
  return nullptr;
}

void run_plain_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch) {
  const int64_t per_block = kWarps * (gemv.swiglu ? kRows / 2 : kRows);
  int64_t blocks = 0;
  for (int i = 0; i < (gemv.swiglu ? 1 : gemv.layers); ++i) {
    gemv.layer[i].first = blocks;
    blocks += blocks_for(gemv.layer[i].n, per_block);
  }
  if (blocks == 0) return;
  gemv.aligned = begins_at_eights(dtype, gemv, x);
  if (dtype == DType::bf16) return start_type<__nv_bfloat16>(gemv, blocks, x, launch);
  if (dtype == DType::f16) return start_type<__half>(gemv, blocks, x, launch);
  start_type<float>(gemv, blocks, x, launch);
}

}  // namespace genesis::cuda
