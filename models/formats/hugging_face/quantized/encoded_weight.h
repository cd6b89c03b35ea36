// A weight that a checkpoint stores quantized: every quantization method becomes this one form. A value is
// (numbers[code] - zero) * scale * factor, computed in f32 and rounded once to the dtype of the model's parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/formats/hugging_face/quantized/codes.h"
#include "schema/encoding/state_format.h"

namespace genesis::models::hugging_face::quantized {

// Scales, and numbers without a scale that mean 0, which blocks of a weight's elements share: [rows / rows_each,
// columns / columns_each], each rounded up. They are read only while the weight is decoded, so that a large checkpoint never has
// all of them in memory.
struct Blocks {
  int64_t rows_each = 1, columns_each = 1;
  int64_t in_row = 1;  // blocks side by side
  std::function<std::vector<float>()> scales = {};
  std::function<std::vector<float>()> zeros = {};  // null: all are 0
  // The block of each column, for groups of columns that are not neighbors (GPTQ with desc_act); empty: columns_each says it.
  std::vector<int32_t> of_column = {};
};

struct EncodedWeight {
  std::string kind;               // for messages: "fp8", "gptq of 4 bits"
  Shape shape;                    // [rows, columns], or [experts, rows, columns]
  int64_t rows = 0, columns = 0;  // all values as one matrix: their number is rows * columns
  ReadCodes codes = {};
  std::span<const float> numbers = {};                   // for every code that `codes` may give
  std::shared_ptr<const std::vector<float>> table = {};  // keeps `numbers` alive if they came with the file
  Blocks blocks = {};
  bool has_integers = false;   // all numbers and zeros are integers
  float factor = 1;            // applied after the scale
  bool is_transposed = false;  // `shape` has the last two axes in the other order than the stored values

  std::string to_string() const { return kind + " " + shape.to_string(); }
};
using EncodedWeights = std::map<std::string, EncodedWeight>;  // by name of the weight

// Returns how many rows one thread unpacks and decodes at a time.
int64_t rows_of_tile(const EncodedWeight& weight);

// Returns the values in f32, bf16 or f16, on all cores. Besides the result and the scales, it needs some 100 KB per core. Throws
// Error for a value beyond the range of f16, and for a dtype of scales that is not read.
Tensor decode(const EncodedWeight& weight, DType dtype);

}  // namespace genesis::models::hugging_face::quantized
