#include "backends/cuda/gemm/quantized_gemv.h"

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/swiglu_formula.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8,
              kRows = 4;  // rows of weights that a warp has in flight; of a swiglu, half of them up's
constexpr int kGroup = kQuantBlock / 4;   // lanes that make the bytes of a block of x
constexpr int64_t kMaxShared = 96 << 10;  // bytes of x

template <WeightFormat kFormat>
constexpr int64_t kPacksOfBlock = quant_block_bytes(kFormat) / 16;

// Bytes of x in shared memory, then a scale for each block, then for q4 the sum of its quants.
struct SharedX {
  int8_t* quants;
  float* scales;
  int* sums;
  int64_t blocks;

  __device__ SharedX(unsigned char* shared, int64_t m, int64_t k)
      : quants(reinterpret_cast<int8_t*>(shared)),
        scales(reinterpret_cast<float*>(shared + m * k)),
        sums(reinterpret_cast<int*>(shared + m * k) + m * (k / kQuantBlock)),
        blocks(k / kQuantBlock) {}
};
constexpr int64_t shared_x_bytes(int64_t m, int64_t k) { return m * (k + k / kQuantBlock * 8); }

// 1 / rms of a row, by the whole block.
template <class T>
__device__ float inverse_rms(const T* x, int64_t k, float eps) {
  __shared__ float shares[kWarps];
  float squares = 0;
  for (int64_t i = threadIdx.x; i < k; i += kWarps * kLanes)
    squares = fmaf(widen(x[i]), widen(x[i]), squares);
  squares = warp_sum(squares);
  __syncthreads();  // whoever still reads those of the row before
  if (threadIdx.x % kLanes == 0) shares[threadIdx.x / kLanes] = squares;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += shares[warp];
  return 1 / sqrtf(sum / static_cast<float>(k) + eps);
}

// Four values each of a block's lanes become bytes.
template <class T>
__device__ void quantize_row(const QuantizedGemv& gemv, const T* x, int row, const SharedX& to) {
  const float factor = gemv.norm ? inverse_rms(x, gemv.k, gemv.eps) : 1;
  const int64_t quads = gemv.k / 4;
  for (int64_t first = threadIdx.x / kLanes * kLanes; first < quads; first += kWarps * kLanes) {
    const int64_t quad = first + threadIdx.x % kLanes;
    float values[4] = {}, greatest = 0;
    if (quad < quads)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = widen(x[quad * 4 + i]);
        if (gemv.norm) values[i] *= factor * widen(static_cast<const T*>(gemv.norm)[quad * 4 + i]);
        greatest = MaxOrNan()(fabsf(values[i]), greatest);
      }
    greatest = reduce_lanes(greatest, kGroup, MaxOrNan());
    // NaN for what has no greatest magnitude, so that sums with it are NaN.
    const float scale = greatest <= 3.402823466e38f ? greatest / 127 : __int_as_float(0x7fc00000);
    const float by = scale > 0 ? 1 / scale : 0;
    char4 bytes;
    int sum = 0;
    int8_t* at[4] = {reinterpret_cast<int8_t*>(&bytes.x), reinterpret_cast<int8_t*>(&bytes.y),
                     reinterpret_cast<int8_t*>(&bytes.z), reinterpret_cast<int8_t*>(&bytes.w)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int quant = max(-127, min(127, __float2int_rn(values[i] * by)));
      *at[i] = static_cast<int8_t>(quant);
      sum += quant;
    }
    sum = reduce_lanes(sum, kGroup, Add());
    if (quad >= quads) continue;
    reinterpret_cast<char4*>(to.quants + row * gemv.k)[quad] = bytes;
    if (quad % kGroup != 0) continue;
    to.scales[row * to.blocks + quad / kGroup] = scale;
    to.sums[row * to.blocks + quad / kGroup] = sum;
  }
}

// 16 bytes of a row of weights times what they meet of a row of x: half a block of q8, a block of q4.
template <WeightFormat kFormat>
__device__ __forceinline__ float dot_pack(const uint4& w, __half scale, const SharedX& x, int64_t pack,
                                          int64_t row, int64_t k) {
  const unsigned words[4] = {w.x, w.y, w.z, w.w};
  constexpr bool kIsQ4 = kFormat == WeightFormat::kQ4;
  const int64_t block = kIsQ4 ? pack : pack / 2;
  const int* quants = reinterpret_cast<const int*>(x.quants + row * k) + pack * (kIsQ4 ? 8 : 4);
  int sum = kIsQ4 ? -kQ4Zero * x.sums[row * x.blocks + block] : 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kIsQ4) {
      sum = __dp4a(static_cast<int>(words[i] & 0x0f0f0f0fu), quants[i], sum);
      sum = __dp4a(static_cast<int>(words[i] >> 4 & 0x0f0f0f0fu), quants[4 + i], sum);
    } else {
      sum = __dp4a(static_cast<int>(words[i]), quants[i], sum);
    }
  }
  return static_cast<float>(sum) * (__half2float(scale) * x.scales[row * x.blocks + block]);
}

struct WeightRow {
  const uint4* quants;
  const __half* scales;
};

template <WeightFormat kFormat, int M>
__device__ __forceinline__ void multiply(const QuantizedGemv& gemv, const WeightRow (&rows)[kRows],
                                         const SharedX& x, float (&sums)[M][kRows]) {
  constexpr int kEach = kFormat == WeightFormat::kQ4 ? 32 : 16;  // values of a pack
  const int64_t packs = gemv.k / kEach;
  for (int64_t pack = threadIdx.x % kLanes; pack < packs; pack += kLanes) {
    uint4 w[kRows];
    __half scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = __ldcs(rows[r].quants + pack);
      scale[r] = rows[r].scales[pack * kEach / kQuantBlock];
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (m < gemv.m) sums[m][r] += dot_pack<kFormat>(w[r], scale[r], x, pack, m, gemv.k);
  }
}

// y of one row of x and one of the weights, from its sum, or from those of gate and up.
template <class T>
__device__ void finish(const QuantizedGemv& gemv, const QuantizedGemv::Layer& layer, int64_t m, int64_t row,
                       float sum, float up) {
  const auto with_bias = [&](float value, const void* bias) {
    return bias ? value + widen(static_cast<const T*>(bias)[row]) : value;
  };
  const int64_t at = m * layer.n + row;
  float y = with_bias(sum, layer.bias);
  if (gemv.swiglu) {
    y = gated<T>(widen(narrow<T>(y)), widen(narrow<T>(with_bias(up, gemv.layer[1].bias))));
  } else {
    y = activate(y, gemv.activation);
    if (layer.addend) y += widen(static_cast<const T*>(layer.addend)[at]);
  }
  static_cast<T*>(layer.y)[at] = narrow<T>(y);
}

// Results of a warp: kRows of a layer, or half as many of gate and up, whose rows alternate.
template <class T, WeightFormat kFormat, int M>
__global__ void __launch_bounds__(kWarps* kLanes)
    quantized_gemv(const __grid_constant__ QuantizedGemv gemv, const T* x) {
  extern __shared__ __align__(16) unsigned char shared[];
  begin_in_order();
  const SharedX bytes(shared, gemv.m, gemv.k);
  for (int row = 0; row < gemv.m; ++row) quantize_row(gemv, x + row * gemv.k, row, bytes);
  __syncthreads();
  int which = 0;
  if (!gemv.swiglu)
    while (which + 1 < gemv.layers && blockIdx.x >= gemv.layer[which + 1].first_block) ++which;
  const QuantizedGemv::Layer& layer = gemv.layer[which];
  const int results = gemv.swiglu ? kRows / 2 : kRows, lane = threadIdx.x % kLanes;
  const int64_t first =
      ((static_cast<int64_t>(blockIdx.x) - layer.first_block) * kWarps + threadIdx.x / kLanes) * results;
  if (first >= layer.n) return;
  WeightRow rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const QuantizedGemv::Layer& of = gemv.layer[gemv.swiglu ? r % 2 : which];
    const int64_t row = min(first + (gemv.swiglu ? r / 2 : r), layer.n - 1);
    rows[r] = {static_cast<const uint4*>(of.quants) + row * bytes.blocks * kPacksOfBlock<kFormat>,
               static_cast<const __half*>(of.scales) + row * bytes.blocks};
  }
  float sums[M][kRows] = {};
  multiply<kFormat, M>(gemv, rows, bytes, sums);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[m][r] = warp_sum(sums[m][r]);
  if (lane != 0) return;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (m >= gemv.m || (gemv.swiglu && r % 2 != 0)) continue;
      const int64_t row = first + (gemv.swiglu ? r / 2 : r);
      if (row < layer.n) finish<T>(gemv, layer, m, row, sums[m][r], sums[m][r | 1]);
    }
}

template <class T, WeightFormat kFormat, int M>
void start_rows(const QuantizedGemv& gemv, int64_t blocks, const void* x, const KernelContext& c) {
  const auto kernel = quantized_gemv<T, kFormat, M>;
  const auto shared = static_cast<size_t>(shared_x_bytes(gemv.m, gemv.k));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMaxShared));
  start_with_pdl(c, kernel, blocks, kWarps * kLanes, shared, gemv, static_cast<const T*>(x));
}

template <class T, WeightFormat kFormat>
void start_format(const QuantizedGemv& gemv, int64_t blocks, const void* x, const KernelContext& c) {
  if (gemv.m <= 1) return start_rows<T, kFormat, 1>(gemv, blocks, x, c);
  if (gemv.m <= 4) return start_rows<T, kFormat, 4>(gemv, blocks, x, c);
  start_rows<T, kFormat, 8>(gemv, blocks, x, c);
}

template <class T>
void start_type(const QuantizedGemv& gemv, int64_t blocks, const void* x, const KernelContext& c) {
  if (gemv.format == WeightFormat::kQ8) return start_format<T, WeightFormat::kQ8>(gemv, blocks, x, c);
  start_format<T, WeightFormat::kQ4>(gemv, blocks, x, c);
}

}  // namespace

const char* why_no_quantized_gemv(int64_t m, int64_t k) {
  if (m < 1 || m > QuantizedGemv::kMaxRows) return "more rows of x than the kernel's registers hold, or none";
  if (k < 1 || shared_x_bytes(m, k) > kMaxShared) return "rows of x that are longer than shared memory holds";
  return nullptr;
}

void run_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const KernelContext& c) {
  const int64_t per_block = kWarps * (gemv.swiglu ? kRows / 2 : kRows);
  int64_t blocks = 0;
  for (int i = 0; i < (gemv.swiglu ? 1 : gemv.layers); ++i) {
    gemv.layer[i].first_block = blocks;
    blocks += blocks_for(gemv.layer[i].n, per_block);
  }
  if (blocks == 0) return;
  if (dtype == DType::bf16) return start_type<__nv_bfloat16>(gemv, blocks, x, c);
  if (dtype == DType::f16) return start_type<__half>(gemv, blocks, x, c);
  start_type<float>(gemv, blocks, x, c);
}

}  // namespace genesis::cuda
