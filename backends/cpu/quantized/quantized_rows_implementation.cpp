// The implementation `quantized_gemv` of linear, for few rows of x and quantized weights, which are read as they are.
#include <fmt/format.h>

#include "backends/common/matmul_problem.h"
#include "backends/cpu/gemm/gemv/linear_dots.h"
#include "backends/cpu/product_implementations.h"
#include "backends/cpu/quantized/quantized_rows.h"

namespace genesis::cpu {
namespace {

// With more rows of x, dequantizing the weights costs little beside the products.
constexpr int64_t kMaxQuantizedRows = 64;

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  if (op.has_norm()) return "a norm ahead of the weights";
  if (query.inputs[0].dtype == DType::f64) return "x is f64";
  if (rows_of_x(query.inputs[0].shape) > kMaxQuantizedRows && !rows_are_alone(query.inputs[0].shape))
    return fmt::format("more than {} rows", kMaxQuantizedRows);
  if (query.inputs[0].numel() == 0 || query.outputs[0].numel() == 0) return "no elements";
  return std::nullopt;
}

GemvKernel kernel_of(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  return quantized_rows_kernel(query.inputs[0].dtype, op.weight_format);
}

std::shared_ptr<const void> prepare_quantized_rows(const KernelQuery& query) {
  return prepare_linear_dots(query, kernel_of(query));
}

int64_t quantized_rows_scratch(const KernelQuery& query) {
  return linear_dots_scratch(query, kernel_of(query));
}

}  // namespace

KernelImpl linear_quantized_gemv_implementation() {
  return {.name = "quantized_gemv",
          .run = run_linear_dots,
          .can_run = decline,
          .scratch_bytes = quantized_rows_scratch,
          .prepare = prepare_quantized_rows};
}

}  // namespace genesis::cpu
