// dequantize: computes the values of quantized weights for ops that cannot work on the quants themselves, for example after an
// embedding lookup. The loop is that of the state format.
#include "schema/ops/nn/dequantize.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/encoding/quantized_formats.h"

namespace genesis::cpu {
namespace {

void run_dequantize(const KernelContext& c) {
  const StateFormat& format = quantized_format(c.attributes<ops::Dequantize>().format, c.output().dtype);
  const auto *quants = c.input(0).as<std::byte>(), *scales = c.input(1).as<std::byte>();
  auto* y = c.output().as<std::byte>();
  const auto width = static_cast<int64_t>(size_of(c.output().dtype));
  parallel_rows(c.input(1).numel(), kQuantBlock * width, [&](int64_t first, int64_t last) {
    const int64_t at = first * kQuantBlock;
    format.decode({quants + format.part_bytes(0, at), scales + format.part_bytes(1, at)},
                  (last - first) * kQuantBlock, y + at * width);
  });
}

constexpr OpKernel kKernels[] = {{"dequantize", {.name = "blocks", .run = run_dequantize}}};

}  // namespace

std::span<const OpKernel> dequantize_kernels() { return kKernels; }

}  // namespace genesis::cpu
