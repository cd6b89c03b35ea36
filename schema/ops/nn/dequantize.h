// Quantised weights as numbers, for who does not read them as they are (linear's `weight_format` is for who does).
#pragma once

#include "schema/encoding/weight_format.h"
#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

// Inputs: quants, i8 [..., n] of q8 or u8 [..., n/2] of q4; scales, f16 [..., n/32]. Passes make it where a state is kept so.
struct Dequantize {
  static constexpr OpInfo info{
      .name = "dequantize",
      .doc =
          "Numbers [..., n] of `dtype` from blocks of 32 along the last axis, each value its "
          "quant times the block's scale: quants i8 [..., n] (`format` q8) or two to an u8 "
          "[..., n/2] (q4), and scales f16 [..., n/32].",
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
