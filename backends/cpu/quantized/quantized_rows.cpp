#include "backends/cpu/quantized/quantized_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/gemm/gemm_util.h"
#include "schema/core/float16.h"
#include "schema/encoding/q4m.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace genesis::cpu {
namespace {

constexpr int64_t kScalesAtOnce = 8;

// Streams of weights that are read at once. Each has weights and scales, and the hardware prefetches no more than eight streams:
// with six (twelve in all), q4 is read at 0.7 of the speed.
constexpr int kStreams = 4;

// Returns whether each block of the weights has a zero of its own.
template <WeightFormat format>
constexpr bool kHasZeros = format == WeightFormat::kQ4m;

// A packed row of x: the quants of an even number of blocks, then the scales, then, for weights with zeros, the sum of each
// block's quants in units of a zero; all filled up with zeros.
int64_t quants_of_row(int64_t k) { return round_up(k, 2 * kQuantBlock); }
int64_t scales_of_row(int64_t k) { return round_up(k / kQuantBlock, kScalesAtOnce); }
template <WeightFormat format>
int64_t packed_row(int64_t k) {
  return round_up(quants_of_row(k) / 4 + (kHasZeros<format> ? 2 : 1) * scales_of_row(k), 16);
}

struct QuantizedRow {
  const int8_t* quants;
  const float *scales, *sums;
  QuantizedRow(const float* packed, int64_t k)
      : quants(reinterpret_cast<const int8_t*>(packed)),
        scales(packed + quants_of_row(k) / 4),
        sums(scales + scales_of_row(k)) {}
};

// Returns the sum of a block's quants of x in units of a q4m block's zero.
inline float sum_in_zero_units(const int8_t* quants) {
  int32_t sum = 0;
  for (int i = 0; i < kQuantBlock; ++i) sum += quants[i];
  return static_cast<float>(sum) * kQ4mZeroUnit;
}

// Returns the scale of a block with the greatest magnitude `greatest`; NaN if that is infinite or NaN, so that the sums become
// NaN.
inline float activation_scale(float greatest) {
  return greatest <= std::numeric_limits<float>::max() ? greatest / 127
                                                       : std::numeric_limits<float>::quiet_NaN();
}

// The values of a block of x, copied if they are not contiguous.
template <class T>
struct BlockOfX {
  std::array<T, kQuantBlock> copies;
  const T* values;
  BlockOfX(const RowsOfA& a, int64_t row, int64_t first)
      : values(static_cast<const T*>(a.data) + row * a.row + first * a.step) {
    if (a.step == 1) return;
    for (size_t i = 0; i < kQuantBlock; ++i) copies[i] = values[static_cast<int64_t>(i) * a.step];
    values = copies.data();
  }
};

// Packs rows of x with quantize_block(x, quants), which returns the scale of a block.
template <WeightFormat format, class T, class QuantizeBlock>
void pack_rows(const RowsOfA& a, float* x, const QuantizeBlock& quantize_block) {
  const int64_t length = packed_row<format>(a.k);
  for (int64_t row = 0; row < padded_rows(a.m); ++row, x += length) {
    std::fill_n(x + (row < a.m ? a.k / 4 : 0), length - (row < a.m ? a.k / 4 : 0), 0.0f);
    if (row >= a.m) continue;
    auto* quants = reinterpret_cast<int8_t*>(x);
    float *scales = x + quants_of_row(a.k) / 4, *sums = scales + scales_of_row(a.k);
    for (int64_t block = 0; block < a.k / kQuantBlock; ++block) {
      const BlockOfX<T> values(a, row, block * kQuantBlock);
      scales[block] = quantize_block(values.values, quants + block * kQuantBlock);
      if constexpr (kHasZeros<format>) {
        scales[block] *= kQ4mScaleUnit;
        sums[block] = sum_in_zero_units(quants + block * kQuantBlock);
      }
    }
  }
}

// The loops in plain C++: the reference of the others, and the fallback on CPUs that support none of them.
namespace plain {

template <class T>
float quantize_block(const T* x, int8_t* quants) {
  float greatest = 0;
  for (int i = 0; i < kQuantBlock; ++i) {
    const float magnitude = std::abs(static_cast<float>(x[i]));
    if (!(magnitude <= greatest)) greatest = magnitude;
    if (std::isnan(greatest)) break;
  }
  const float scale = activation_scale(greatest), by = scale > 0 ? 1 / scale : 0;
  for (int i = 0; i < kQuantBlock; ++i)
    quants[i] =
        std::isnan(scale) ? int8_t{0} : static_cast<int8_t>(std::lrint(static_cast<float>(x[i]) * by));
  return scale;
}

template <class T>
void quantize_row(const void* x, int64_t k, int8_t* quants, float* scales) {
  for (int64_t at = 0; at < k; at += kQuantBlock)
    scales[at / kQuantBlock] = quantize_block(static_cast<const T*>(x) + at, quants + at);
}

template <WeightFormat format>
int dot_block(const uint8_t* w, const int8_t* x) {
  int sum = 0;
  for (int i = 0; i < kQuantBlock; ++i)
    sum += x[i] * (format == WeightFormat::kQ8   ? static_cast<int8_t>(w[i])
                   : format == WeightFormat::kQ4 ? q4_quant(w, i)
                                                 : four_bits(w, i));
  return sum;
}

// Returns the dot product of block b of x with a block of weights that has the 16 bits `word`.
template <WeightFormat format>
float scaled_dot(const uint8_t* w, uint16_t word, const QuantizedRow& x, int64_t b) {
  f16 scale;
  scale.bits = kHasZeros<format> ? q4m_scale_bits(word) : word;
  float dot = static_cast<float>(dot_block<format>(w, x.quants + b * kQuantBlock));
  if constexpr (kHasZeros<format>) dot -= static_cast<float>(q4m_zero_units(word)) * x.sums[b];
  return dot * (static_cast<float>(scale) * x.scales[b]);
}

template <WeightFormat format>
void dot_rows(const GemvCall& r) {
  const int64_t blocks = r.k / kQuantBlock;
  for (int64_t i = 0; i < padded_rows(r.m); ++i) {
    const QuantizedRow x(r.x + i * r.stride_x, r.k);
    for (int64_t at = 0; at < r.streams * r.n; ++at) {
      const int64_t first = (at / r.n * r.apart + at % r.n) * blocks;
      const auto* w = static_cast<const uint8_t*>(r.weights) + first * quant_block_bytes(format);
      const uint16_t* scales = static_cast<const uint16_t*>(r.scales) + first;
      float sum = 0;
      for (int64_t b = 0; b < blocks; ++b)
        sum += scaled_dot<format>(w + b * quant_block_bytes(format), scales[b], x, b);
      r.sums[i * r.stride_sums + at] = sum;
    }
  }
}

template <WeightFormat format, class T>
void pack(const RowsOfA& a, float* x) {
  pack_rows<format, T>(a, x, quantize_block<T>);
}

template <WeightFormat format>
GemvKernel kernel_of(DType a) {
  return {dot_rows<format>, dispatch_rows(a, []<class T>(TypeTag<T>) { return pack<format, T>; }),
          packed_row<format>, kStreams};
}

GemvKernel kernel(DType a, WeightFormat format) {
  if (format == WeightFormat::kQ8) return kernel_of<WeightFormat::kQ8>(a);
  return format == WeightFormat::kQ4 ? kernel_of<WeightFormat::kQ4>(a) : kernel_of<WeightFormat::kQ4m>(a);
}

}  // namespace plain

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace avx2 {
#define GENESIS_DOT 0
#include "backends/cpu/quantized/quantized_rows-inl.h"
#undef GENESIS_DOT
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
namespace avx_vnni {
#define GENESIS_DOT 1
#include "backends/cpu/quantized/quantized_rows-inl.h"
#undef GENESIS_DOT
}  // namespace avx_vnni
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace avx512_vnni {
#define GENESIS_DOT 2
#include "backends/cpu/quantized/quantized_rows-inl.h"
#undef GENESIS_DOT
#include "backends/cpu/quantized/quantized_rows_q4-inl.h"
}  // namespace avx512_vnni
#pragma GCC pop_options

#endif

struct Kernels {
  bool (*is_there)();
  GemvKernel (*kernel)(DType a, WeightFormat format);
};

constexpr Kernels kAll[] = {
#if defined(__x86_64__)
    {[] {
       return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
     },
     avx512_vnni::best_kernel},
    {[] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avxvnni"); }, avx_vnni::kernel},
    {[] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }, avx2::kernel},
#endif
    {[] { return true; }, plain::kernel}};

}  // namespace

ActivationQuantizer activation_quantizer(DType dtype) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return avx2::quantize_row<T>; });
#endif
  return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return plain::quantize_row<T>; });
}

std::vector<GemvKernel> quantized_rows_kernels(DType a, WeightFormat format) {
  std::vector<GemvKernel> kernels;
  for (const Kernels& k : kAll)
    if (k.is_there()) kernels.push_back(k.kernel(a, format));
  return kernels;
}

GemvKernel quantized_rows_kernel(DType a, WeightFormat format) {
  return quantized_rows_kernels(a, format).front();
}

}  // namespace genesis::cpu
