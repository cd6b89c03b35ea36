// Tensors and types within an .onnx file. Used by onnx_file.cpp alone.
#pragma once

#include <optional>
#include <utility>

#include "tools/viz/foreign/onnx_values.h"
#include "tools/viz/foreign/proto_reader.h"

namespace genesis::viz {

// Calls visit(field) for every field of the message.
template <class Visit>
void for_each_field(const ProtoMessage& message, const Visit& visit) {
  ProtoReader reader(message);
  for (ProtoField field; reader.next(field);) visit(field);
}

// Throws Error when its sizes are negative, of more bytes than 64 bits count, or not those of the values in the file.
OnnxTensor read_onnx_tensor(const ProtoMessage& message);
// Reads a SparseTensorProto likewise.
OnnxTensor read_onnx_sparse_tensor(const ProtoMessage& message);

// A ValueInfoProto: name and type. A dimension of less than 0 is one that is not said.
std::pair<std::string, OnnxType> read_onnx_value(const ProtoMessage& message);

// Elements of a shape of which all sizes are known; empty: one is not. Throws Error when 64 bits cannot count the bytes.
std::optional<int64_t> count_elements(const OnnxType& type, const std::string& name);

}  // namespace genesis::viz
