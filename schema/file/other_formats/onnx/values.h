// Types and tensors of an .onnx file. Sizes are texts, because they may be names, or unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schema/file/other_formats/proto_reader.h"

namespace genesis {

struct OnnxType {
  std::string dtype = "unknown";
  bool has_shape = false;          // false: even the number of dimensions is unknown
  std::vector<std::string> shape;  // 768, "batch"; "?": unknown
  int64_t bits = 0;                // bits of an element; 0: unknown
  int64_t element = 0;             // TensorProto.DataType; 0: unknown
  // The type of what a sequence or an optional value holds (`dtype` is then "sequence" or "optional").
  std::shared_ptr<const OnnxType> item = nullptr;
};

// Values that lie in another file beside the model's file.
struct OnnxExternalData {
  std::string location;  // a path relative to the folder of the model's file
  int64_t offset = 0;
  std::optional<int64_t> length = std::nullopt;  // in bytes; up to the end of the file if it is missing
};

// Says where the values of a tensor are. The parts are ranges of the bytes that were read.
struct OnnxTensorData {
  bool has_raw = false, is_sparse = false;
  ProtoMessage raw;
  std::vector<ProtoField> typed;  // float_data, int32_data and similar fields
  std::optional<OnnxExternalData> external;
};

// Returns the type for a TensorProto.DataType; "unknown" for other numbers.
OnnxType onnx_element_type(int64_t number);

struct OnnxTensor {
  std::string name;
  OnnxType type;
  // The values of a tensor with at most kShownElements elements. Both lists are empty for larger tensors and other
  // types.
  std::vector<int64_t> integers;
  std::vector<double> reals;
  OnnxTensorData data = {};
};

constexpr int64_t kShownElements = 64;

// Returns "i64[2] = [1,-1]" or "f32[64,3,7,7]".
std::string onnx_text(const OnnxTensor& tensor);

}  // namespace genesis
