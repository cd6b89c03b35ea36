// Reads tensors and types from an .onnx file, for onnx_file.cpp.
#pragma once

#include <optional>
#include <utility>

#include "schema/file/other_formats/onnx/values.h"
#include "schema/file/other_formats/proto_reader.h"

namespace genesis {

// Reads a TensorProto. Throws Error if its sizes are negative, need more than 64 bits of bytes, or do not fit its
// values in the file.
OnnxTensor read_onnx_tensor(const ProtoMessage& message);
// Does the same for a SparseTensorProto.
OnnxTensor read_onnx_sparse_tensor(const ProtoMessage& message);

// Reads a ValueInfoProto: name and type. A negative dimension counts as unknown.
std::pair<std::string, OnnxType> read_onnx_value(const ProtoMessage& message);

// Returns the number of elements; empty if a size is unknown. Throws Error if the bytes do not fit in 64 bits.
std::optional<int64_t> count_elements(const OnnxType& type, const std::string& name);

}  // namespace genesis
