// The implementation `quantized_gemv_stream` of linear: quantized_linear.h with the kernel that streams weights.
#include "backends/common/matmul_problem.h"
#include "backends/cuda/gemm/quantized/quantized_linear.h"
#include "backends/cuda/gemm/quantized_stream/quantized_gemv_stream.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

std::optional<std::string> decline(const KernelQuery& query) {
  if (const auto why = quantized_linear_declines(query)) return why;
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const Shape& x = query.inputs[0].shape;
  QuantizedGemv gemv = described_gemv(op, rows_of_x(x), x[x.rank() - 1].value());
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    gemv.layer[i].n = query.inputs[op.first_weight() + i].shape[0].value();
  const std::string why = quantized_stream_declines(gemv);
  return why.empty() ? std::nullopt : std::optional(why);
}

void run(const KernelContext& c) {
  const QuantizedGemv gemv = quantized_gemv_of(c);
  if (!try_streamed_quantized_gemv(c.input(0).dtype, gemv, c.input(0).data, launch_of(c)))
    run_plain_quantized_gemv(c.input(0).dtype, gemv, c.input(0).data, launch_of(c));
}

}  // namespace

KernelImpl linear_quantized_gemv_stream_implementation() {
  return {.name = "quantized_gemv_stream",
          .run = run,
          .can_run = decline,
          .why_not_here = why_no_early_starts_here};
}

}  // namespace genesis::cuda
