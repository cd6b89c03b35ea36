// Converts quantized weights to numbers, for ops that cannot read them directly. (linear reads them directly with
// `weight_format`.)
#pragma once

#include "schema/encoding/weight_format.h"
#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

// Inputs: quants, i8 [..., n] for q8 or u8 [..., n/2] for q4 and q4m; scales, f16 [..., n/32], or i16 for q4m. Passes create this
// op if a state is kept in such a format.
struct Dequantize {
  static constexpr OpInfo info{
      .name = "dequantize",
      .doc =
          "Numbers [..., n] of `dtype` from blocks of 32 along the last axis: each value is its quant times "
          "the block's scale. Quants are i8 [..., n] (`format` q8), or two in each u8 [..., n/2] (q4, q4m); "
          "scales are f16 [..., n/32]. In q4m a value is scale * (quant - zero), and scales are i16 that "
          "hold both.",
      .inputs = {2, 2},
      .precision = Precision::kExact};
  WeightFormat format = WeightFormat::kQ8;
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) {
    visit("format", self.format);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

Value dequantize(WeightFormat format, Value quants, Value scales, DType dtype);

}  // namespace genesis
