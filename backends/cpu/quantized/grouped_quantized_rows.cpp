// The implementation `quantized_gemv` of grouped_matmul: quantized weights are read as they are, for any number of rows.
#include "backends/cpu/gemm/gemv/grouped_rows.h"
#include "backends/cpu/product_implementations.h"
#include "backends/cpu/quantized/quantized_rows.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis::cpu {
namespace {

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::GroupedMatmul>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  if (query.inputs[0].dtype == DType::f64) return "x is f64";
  if (query.inputs[0].numel() == 0 || query.outputs[0].numel() == 0) return "no elements";
  return std::nullopt;
}

GemvKernel kernel_of(const KernelQuery& query) {
  const auto op = from_attributes<ops::GroupedMatmul>(query.attributes);
  return quantized_rows_kernel(query.inputs[0].dtype, op.weight_format);
}

}  // namespace

KernelImpl grouped_quantized_gemv_implementation() {
  return {
      .name = "quantized_gemv",
      .run = run_grouped_rows,
      .can_run = decline,
      .scratch_bytes = [](const KernelQuery& query) { return grouped_rows_scratch(query, kernel_of(query)); },
      .prepare = [](const KernelQuery& query) { return prepare_grouped_rows(query, kernel_of(query)); }};
}

}  // namespace genesis::cpu
