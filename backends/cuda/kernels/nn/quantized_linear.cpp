// linear of q8 and q4 weights, read as they are by a few rows of x: all layers of a node, with the norm ahead of them and
// swiglu behind, are one start. More rows are multiplied with dequantized weights, by the way `dequantized`.
#include "backends/common/product_parts.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/quantized_gemv.h"
#include "backends/cuda/kernels/nn/product_ways.h"
#include "schema/ops/nn/dequantize.h"

namespace genesis::cuda {
namespace {

int64_t rows_of(const TensorType& x) {
  return x.numel() / std::max<int64_t>(1, x.shape[x.shape.rank() - 1].value());
}

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  const TensorType& x = query.inputs[0];
  if (x.dtype != DType::f32 && !is_low_precision(x.dtype)) return "x is neither f32 nor bf16 or f16";
  if (x.numel() == 0) return "no elements";
  if (op.weights > QuantizedGemv::kMaxLayers) return "more weights than a start takes";
  if (op.has_norm() && query.inputs[1].dtype != x.dtype) return "a norm of another dtype";
  if (const char* why = why_no_quantized_gemv(rows_of(x), x.shape[x.shape.rank() - 1].value())) return why;
  return std::nullopt;
}

struct Prepared {
  ops::Linear op;
  bool has_bias = false;
  int64_t m = 0, k = 0;
};

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const TensorType& x = query.inputs[0];
  return std::make_shared<const Prepared>(
      Prepared{op, op.has_bias(query.inputs.size()), rows_of(x), x.shape[x.shape.rank() - 1].value()});
}

// Weights are states, which begin at multiples of 256 bytes.
void run(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  QuantizedGemv gemv{.format = p.op.weight_format,
                     .m = static_cast<int>(p.m),
                     .layers = static_cast<int>(p.op.weights),
                     .k = p.k,
                     .swiglu = p.op.epilogue == ops::LinearEpilogue::kSwiglu,
                     .norm = p.op.has_norm() ? c.input(1).data : nullptr,
                     .eps = static_cast<float>(p.op.eps),
                     .activation = p.op.activation};
  for (size_t i = 0; i < static_cast<size_t>(p.op.weights); ++i)
    gemv.layer[i] = {c.inputs[p.op.first_weight() + i].data,
                     c.inputs[p.op.first_scale() + i].data,
                     p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
                     p.op.has_addend ? c.inputs.back().data : nullptr,
                     c.outputs[gemv.swiglu ? 0 : i].data,
                     c.inputs[p.op.first_weight() + i].dim(0),
                     0};
  run_quantized_gemv(c.input(0).dtype, gemv, c.input(0).data, c);
}

}  // namespace

KernelImpl linear_quantized_gemv_way() {
  return {.name = "quantized_gemv", .run = run, .can_run = decline, .prepare = prepare};
}

}  // namespace genesis::cuda
