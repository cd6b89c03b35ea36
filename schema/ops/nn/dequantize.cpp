#include "schema/ops/nn/dequantize.h"

namespace genesis {

namespace ops {

std::vector<TensorType> Dequantize::infer(Types in) const {
  const TensorType &quants = in[0], &scales = in[1];
  const std::string_view name = EnumNames<WeightFormat>::names[static_cast<size_t>(format)];
  if (format == WeightFormat::kPlain) fail("dequantize: `format` must be q8, q4 or q4m, got {}", name);
  if (!is_float(dtype) || dtype == DType::f64)
    fail("dequantize gives f32, bf16 or f16, not {}", name_of(dtype));
  const DType expected = quants_dtype(format), of_scales = scales_dtype(format);
  if (quants.dtype != expected || scales.dtype != of_scales)
    fail("dequantize of {} takes quants of {} and scales of {}, got {} and {}", name, name_of(expected),
         name_of(of_scales), quants.to_string(), scales.to_string());
  Shape shape = scales.shape;
  if (shape.rank() == 0) fail("dequantize of scales without an axis");
  Dim& last = shape[shape.rank() - 1];
  Shape packed = shape;
  packed[shape.rank() - 1] = last * Dim(kQuantBlock / values_each_quant(format));
  last = last * Dim(kQuantBlock);
  if (!(packed == quants.shape))
    fail("dequantize of {}: scales {} are of quants {}, got {}", name, scales.to_string(), packed.to_string(),
         quants.to_string());
  return {{dtype, shape}};
}

}  // namespace ops

std::span<const OpDef* const> dequantize_ops() { return kOpDefs<ops::Dequantize>; }

Value dequantize(WeightFormat format, Value quants, Value scales, DType dtype) {
  return emit(ops::Dequantize{format, dtype}, {quants, scales});
}

}  // namespace genesis
