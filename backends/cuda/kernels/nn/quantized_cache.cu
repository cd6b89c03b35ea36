// quantize_rows: a warp rounds a row to 8 bits. quantized_attention: one layer's keys and values are converted to numbers
// in scratch memory, which all layers share, and the kernels of attention read them there.
#include "schema/ops/nn/quantized_cache.h"

#include <cfloat>

#include "backends/common/decomposed_quantized_attention.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/kernels.h"

namespace genesis::cuda {
namespace {

constexpr float kMaxQuant = 127;

template <class T>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const T* x, int8_t* quants, float* scales, int64_t rows, int64_t n) {
  begin_in_order();
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (row >= rows) return;
  const T* from = x + row * n;
  float most = 0;  // NaN if a number is not finite
  for (int64_t i = lane; i < n; i += kLanes) {
    const float magnitude = fabsf(static_cast<float>(widen(from[i])));
    most = MaxOrNan()(most, magnitude <= FLT_MAX ? magnitude : __int_as_float(0x7fc00000));
  }
  most = reduce_lanes(most, kLanes, MaxOrNan());
  const float scale = most / kMaxQuant;
  for (int64_t i = lane; i < n; i += kLanes) {
    const float quant = !(scale > 0) ? 0 : rintf(static_cast<float>(widen(from[i])) / scale);
    quants[row * n + i] = static_cast<int8_t>(fminf(fmaxf(quant, -kMaxQuant), kMaxQuant));
  }
  if (lane == 0) scales[row] = scale;
}

template <class T>
void quantize_as(const KernelContext& c) {
  const int64_t rows = c.output(1).numel();
  start_with_pdl(c, quantize_kernel<T>, blocks_for(rows * kLanes, kThreads), kThreads, 0,
                 c.input(0).as<const T>(), c.output(0).as<int8_t>(), c.output(1).as<float>(), rows,
                 c.input(0).dim(-1));
}

void quantize(const KernelContext& c) {
  if (c.output(1).numel() == 0) return;
  switch (c.input(0).dtype) {
    case DType::bf16:
      return quantize_as<__nv_bfloat16>(c);
    case DType::f16:
      return quantize_as<__half>(c);
    case DType::f64:
      return quantize_as<double>(c);
    default:
      return quantize_as<float>(c);
  }
}

// Converts keys or values of a cache [batch, positions, heads, size]. Positions beyond a text's length become zeros.
template <class T>
__global__ void __launch_bounds__(kThreads)
    numbers_kernel(const int8_t* quants, const float* scales, const int64_t* length, int length_step, T* y,
                   int64_t count, int64_t size, int64_t token, int64_t text) {
  begin_in_order();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const bool is_read = i % text / token < length[i / text * length_step];
  y[i] = narrow<T>(is_read ? static_cast<float>(quants[i]) * scales[i / size] : 0.0f);
}

template <class T>
void convert_to(const KernelContext& c, int operand, std::byte* to) {
  const TensorView& quants = c.input(operand);
  const int64_t size = quants.dim(3), token = quants.dim(2) * size, count = quants.numel();
  if (count == 0) return;
  start_with_pdl(c, numbers_kernel<T>, blocks_for(count, kThreads), kThreads, 0, quants.as<const int8_t>(),
                 c.input(operand + 2).as<const float>(), c.input(5).as<const int64_t>(), c.input(5).rank,
                 reinterpret_cast<T*>(to), count, size, token, quants.dim(1) * token);
}

void convert(const KernelContext& c, int operand, std::byte* to) {
  const DType dtype = c.input(0).dtype;
  if (dtype == DType::bf16) return convert_to<__nv_bfloat16>(c, operand, to);
  if (dtype == DType::f16) return convert_to<__half>(c, operand, to);
  convert_to<float>(c, operand, to);
}

std::shared_ptr<const void> prepare_quantized_cache(const KernelQuery& query) {
  return std::make_shared<DecomposedQuantizedAttention>(kernels_for, true, query);
}

int64_t quantized_cache_scratch(const KernelQuery& query) {
  return DecomposedQuantizedAttention(kernels_for, false, query).scratch_bytes();
}

void attend(const KernelContext& k) {
  Launch launch = launch_of(k);
  launch.independent = 0;  // the kernels of the decomposition have their own inputs
  KernelContext inner = k;
  inner.launch = &launch;
  k.prepared<DecomposedQuantizedAttention>().run(inner, convert);
}

constexpr OpKernel kOps[] = {{"quantize_rows", {.name = "rows", .run = quantize}},
                             {"quantized_attention",
                              {.name = "decomposed",
                               .run = attend,
                               .scratch_bytes = quantized_cache_scratch,
                               .prepare = prepare_quantized_cache}}};

}  // namespace

std::span<const OpKernel> quantized_cache_kernels() { return kOps; }

}  // namespace genesis::cuda
