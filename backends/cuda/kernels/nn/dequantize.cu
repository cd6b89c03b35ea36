// dequantize: converts quantized weights to floats, for consumers that cannot read them directly: products of many
// rows, or rows that were looked up in an embedding. A thread converts eight values, a quarter of a block.
#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/packs.h"
#include "schema/ops/nn/dequantize.h"

namespace genesis::cuda {
namespace {

constexpr int kEach = 8;

template <WeightFormat kFormat, class T>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const uint8_t* quants, const uint16_t* scales, T* y, int64_t eighths) {
  begin_in_order();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= eighths) return;
  const int64_t block = i / 4;
  const int part = static_cast<int>(i % 4);
  constexpr bool kFourBits = has_four_bits(kFormat);
  // Values 8 to 15 and 24 to 31 of a block of four bits share bytes 8 to 15.
  const uint8_t* from = quants + (kFourBits ? block * 16 + part % 2 * kEach : i * kEach);
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&bits);
  const WeightBlock<kFormat> of_block(scales[block]);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    int quant = kFourBits ? (part < 2 ? bytes[j] & 15 : bytes[j] >> 4) : static_cast<int8_t>(bytes[j]);
    if (kFormat == WeightFormat::kQ4) quant -= kQ4Zero;
    y[i * kEach + j] = narrow<T>((static_cast<float>(quant) - of_block.zero) * of_block.scale);
  }
}

template <class T>
void run_type(const KernelContext& c) {
  const int64_t eighths = c.output().numel() / kEach;
  const WeightFormat format = c.attributes<ops::Dequantize>().format;
  const auto kernel = format == WeightFormat::kQ8   ? dequantize_kernel<WeightFormat::kQ8, T>
                      : format == WeightFormat::kQ4 ? dequantize_kernel<WeightFormat::kQ4, T>
                                                    : dequantize_kernel<WeightFormat::kQ4m, T>;
  if (eighths == 0) return;
  start_with_pdl(c, kernel, blocks_for(eighths, kThreads), kThreads, 0, c.input(0).as<const uint8_t>(),
                 c.input(1).as<const uint16_t>(), c.output().as<T>(), eighths);
}

void run_dequantize(const KernelContext& c) {
  if (c.output().dtype == DType::bf16) return run_type<__nv_bfloat16>(c);
  if (c.output().dtype == DType::f16) return run_type<__half>(c);
  run_type<float>(c);
}

constexpr OpKernel kOps[] = {{"dequantize", {.name = "blocks", .run = run_dequantize}}};

}  // namespace

std::span<const OpKernel> dequantize_kernels() { return kOps; }

}  // namespace genesis::cuda
