#include "backends/cuda/gemm/quantized/quantized_linear.h"

#include "backends/common/matmul_problem.h"
#include "backends/cuda/product_implementations.h"

namespace genesis::cuda {

// All layers of a node, with a norm before and swiglu after them, run in one launch. Nodes with more rows of x run
// by `dequantized`, which multiplies with dequantized weights.
std::optional<std::string> quantized_linear_declines(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  const TensorType& x = query.inputs[0];
  if (x.dtype != DType::f32 && !is_low_precision(x.dtype)) return "x is neither f32 nor bf16 or f16";
  if (x.numel() == 0) return "no elements";
  if (op.weights > QuantizedGemv::kMaxLayers) return "more weights than a start takes";
  if (op.has_norm() && query.inputs[1].dtype != x.dtype) return "a norm of another dtype";
  if (const char* why = why_no_quantized_gemv(rows_of_x(x.shape), x.shape[x.shape.rank() - 1].value()))
    return why;
  return std::nullopt;
}

QuantizedGemv described_gemv(const ops::Linear& op, int64_t rows, int64_t k) {
  return {.format = op.weight_format,
          .m = static_cast<int>(rows),
          .layers = static_cast<int>(op.weights),
          .k = k,
          .swiglu = op.epilogue == ops::LinearEpilogue::kSwiglu,
          .wide = op.wide,
          .eps = static_cast<float>(op.eps),
          .activation = op.activation,
          .layer = {}};
}

// Weights are states, which start at multiples of 256 bytes.
QuantizedGemv quantized_gemv_of(const KernelContext& c) {
  const auto& op = c.attributes<ops::Linear>();
  const bool has_bias = op.has_bias(c.inputs.size());
  const int64_t k = c.input(0).dim(-1);
  QuantizedGemv gemv = described_gemv(op, c.input(0).numel() / k, k);
  gemv.norm = op.has_norm() ? c.input(1).data : nullptr;
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    gemv.layer[i] = {c.inputs[op.first_weight() + i].data,
                     c.inputs[op.first_scale() + i].data,
                     has_bias ? c.inputs[op.first_bias() + i].data : nullptr,
                     op.has_addend ? c.inputs.back().data : nullptr,
                     c.outputs[gemv.swiglu ? 0 : i].data,
                     c.inputs[op.first_weight() + i].dim(0),
                     0};
  const auto end = static_cast<int>(op.first_bias());
  gemv.independent = true;
  for (auto i = static_cast<int>(op.first_weight()); i < end; ++i)
    gemv.independent = gemv.independent && is_independent(c, i);
  return gemv;
}

namespace {

void run(const KernelContext& c) {
  run_plain_quantized_gemv(c.input(0).dtype, quantized_gemv_of(c), c.input(0).data, launch_of(c));
}

}  // namespace

KernelImpl linear_quantized_gemv_implementation() {
  return {.name = "quantized_gemv", .run = run, .can_run = quantized_linear_declines};
}

}  // namespace genesis::cuda
