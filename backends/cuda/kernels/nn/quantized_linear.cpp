// linear of q8 and q4 weights, read as they are by a few rows of x: all layers of a node, with the norm ahead of them and
// swiglu behind, are one start. Two rows of the table: the kernel that streams weights, and that for every chip. More rows are
// multiplied with dequantized weights, by the way `dequantized`.
#include "backends/common/matmul_problem.h"
#include "backends/cuda/gemm/quantized_stream/quantized_gemv_stream.h"
#include "backends/cuda/kernels/nn/product_ways.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

std::optional<std::string> decline(const KernelQuery& query) {
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

// What sizes and attributes say; data is filled in by a run.
QuantizedGemv described(const ops::Linear& op, int64_t rows, int64_t k) {
  return {.format = op.weight_format,
          .m = static_cast<int>(rows),
          .layers = static_cast<int>(op.weights),
          .k = k,
          .swiglu = op.epilogue == ops::LinearEpilogue::kSwiglu,
          .eps = static_cast<float>(op.eps),
          .activation = op.activation,
          .layer = {}};
}

std::optional<std::string> decline_stream(const KernelQuery& query) {
  if (const auto why = decline(query)) return why;
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const Shape& x = query.inputs[0].shape;
  QuantizedGemv gemv = described(op, rows_of_x(x), x[x.rank() - 1].value());
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    gemv.layer[i].n = query.inputs[op.first_weight() + i].shape[0].value();
  const std::string why = quantized_stream_declines(gemv);
  return why.empty() ? std::nullopt : std::optional(why);
}

// Weights are states, which begin at multiples of 256 bytes.
QuantizedGemv gemv_of(const KernelContext& c) {
  const auto& op = c.attributes<ops::Linear>();
  const bool has_bias = op.has_bias(c.inputs.size());
  const int64_t k = c.input(0).dim(-1);
  QuantizedGemv gemv = described(op, c.input(0).numel() / k, k);
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

void run(const KernelContext& c) {
  run_plain_quantized_gemv(c.input(0).dtype, gemv_of(c), c.input(0).data, launch_of(c));
}

void run_stream(const KernelContext& c) {
  const QuantizedGemv gemv = gemv_of(c);
  if (!try_streamed_quantized_gemv(c.input(0).dtype, gemv, c.input(0).data, launch_of(c)))
    run_plain_quantized_gemv(c.input(0).dtype, gemv, c.input(0).data, launch_of(c));
}

}  // namespace

KernelImpl linear_quantized_gemv_stream_way() {
  return {.name = "quantized_gemv_stream",
          .run = run_stream,
          .can_run = decline_stream,
          .why_not_here = why_no_early_starts_here};
}

KernelImpl linear_quantized_gemv_way() { return {.name = "quantized_gemv", .run = run, .can_run = decline}; }

}  // namespace genesis::cuda
