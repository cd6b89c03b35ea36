#include "models/formats/onnx/export/patch.h"

#include <algorithm>
#include <set>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/other_formats/onnx/model_file.h"
#include "schema/file/other_formats/onnx/tensor.h"
#include "schema/file/other_formats/onnx/tensor_data.h"
#include "schema/file/other_formats/proto_writer.h"
#include "schema/graph/state_storage.h"

namespace genesis::models::onnx {
namespace {

// Fields of ModelProto, GraphProto and TensorProto.
constexpr uint32_t kGraph = 7, kNode = 1, kInitializer = 5, kDims = 1, kElement = 2, kName = 8, kRaw = 9;
// Fields of NodeProto and AttributeProto.
constexpr uint32_t kOutput = 2, kOperator = 4, kAttribute = 5, kTensorOfAttribute = 5;

std::string_view view_of(const ProtoMessage& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

// Returns the bytes of a field that stays as it is.
std::string same(const ProtoField& field) {
  switch (field.kind) {
    case ProtoField::Kind::kInteger:
      return proto_integer(field.number, field.as_signed());
    case ProtoField::Kind::kPiece:
      return proto_piece(field.number, view_of(field.piece));
    case ProtoField::Kind::kFixed32:
      return proto_float(field.number, field.as_float());
    case ProtoField::Kind::kFixed64:
      break;
  }
  std::string bytes = proto_varint(field.number << 3 | 1);
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(field.integer >> shift & 255);
  return bytes;
}

class Patcher {
 public:
  Patcher(const Model& model, const std::filesystem::path& original)
      : model_(model),
        file_(read_onnx(original)),
        external_(std::filesystem::absolute(original).parent_path()) {}

  std::string bytes() {
    if (!file_.file) fail("it has no bytes");
    const ProtoMessage whole{file_.file->bytes(), 0};
    std::string result;
    for_each_field(whole, [&](const ProtoField& field) {
      result += field.number == kGraph ? proto_piece(kGraph, graph(field.message())) : same(field);
    });
    if (replaced_.empty())
      fail("no weight has the name of a parameter of the model: is this the file that it came from?");
    if (result.size() >= (uint64_t{1} << 31))
      fail("the new file would have {} bytes: the limit is 2 GiB", result.size());
    return result;
  }

  Patched report() const {
    Patched report{.replaced = static_cast<int64_t>(replaced_.size())};
    for (const State& state : model_.states())
      if (state.role == StateRole::kParameter && !replaced_.contains(state.name))
        report.untouched.push_back(state.name);
    std::ranges::sort(report.untouched);
    return report;
  }

 private:
  std::string graph(const ProtoMessage& message) {
    std::string result;
    for_each_field(message, [&](const ProtoField& field) {
      if (field.number == kInitializer)
        result += proto_piece(kInitializer, weight(field.message(), read_onnx_tensor(field.message()).name));
      else
        result += field.number == kNode ? proto_piece(kNode, node(field.message())) : same(field);
    });
    return result;
  }

  // A Constant node is a weight called after its output.
  std::string node(const ProtoMessage& message) {
    std::string output, op, result;
    for_each_field(message, [&](const ProtoField& field) {
      if (field.number == kOutput) output = field.text();
      if (field.number == kOperator) op = field.text();
    });
    if (op != "Constant") return std::string(view_of(message));
    for_each_field(message, [&](const ProtoField& field) {
      result += field.number == kAttribute ? proto_piece(kAttribute, attribute(field.message(), output))
                                           : same(field);
    });
    return result;
  }

  std::string attribute(const ProtoMessage& message, const std::string& name) {
    std::string result;
    for_each_field(message, [&](const ProtoField& field) {
      result += field.number == kTensorOfAttribute
                    ? proto_piece(kTensorOfAttribute, weight(field.message(), name))
                    : same(field);
    });
    return result;
  }

  std::string weight(const ProtoMessage& message, const std::string& name) {
    const OnnxTensor tensor = read_onnx_tensor(message);
    const int32_t index = model_.find_state(name);
    const bool has_state = index >= 0 && (model_.state(index).role == StateRole::kParameter ||
                                          model_.state(index).role == StateRole::kBuffer);
    if (!has_state && !tensor.data.external) return std::string(view_of(message));
    if (!has_state) return with_bytes(tensor, external_bytes(tensor));
    const Tensor old = onnx_tensor_values(tensor, file_.file, external_);
    const Tensor value = value_of(model_.state(index), old.type());
    return with_bytes(tensor,
                      {reinterpret_cast<const char*>(value.data()), static_cast<size_t>(value.bytes())});
  }

  // Returns the bytes of a tensor whose values are in another file, as they are there.
  std::string external_bytes(const OnnxTensor& tensor) {
    int64_t elements = 1;
    for (const std::string& size : tensor.type.shape)
      elements = checked_mul(elements, parse_number<int64_t>(size).value_or(0));
    if (tensor.type.bits == 0)
      fail("the weight '{}' is of {}, which is not read", tensor.name, tensor.type.dtype);
    const int64_t count = (checked_mul(elements, tensor.type.bits) + 7) / 8;
    const auto file = external_.open(*tensor.data.external, count);
    const auto range =
        file->bytes().subspan(static_cast<size_t>(tensor.data.external->offset), static_cast<size_t>(count));
    return {reinterpret_cast<const char*>(range.data()), range.size()};
  }

  Tensor value_of(const State& state, const TensorType& wanted) {
    const Tensor value = initial_value(state);
    if (!(value.shape() == wanted.shape))
      fail("the weight '{}' is {} in the file, and the model has {}", state.name, wanted.to_string(),
           value.type().to_string());
    replaced_.insert(state.name);
    return value.dtype() == wanted.dtype ? value : value.to(wanted.dtype);
  }

  static std::string with_bytes(const OnnxTensor& tensor, std::string_view values) {
    std::string bytes;
    for (const std::string& size : tensor.type.shape)
      bytes += proto_integer(kDims, parse_number<int64_t>(size).value_or(0));
    return bytes + proto_integer(kElement, tensor.type.element) + proto_piece(kName, tensor.name) +
           proto_piece(kRaw, values);
  }

  const Model& model_;
  OnnxFile file_;
  OnnxExternalFiles external_;
  std::set<std::string> replaced_;
};

}  // namespace

Patched patch_weights(const Model& model, const std::filesystem::path& original,
                      const std::filesystem::path& path) {
  return with_context(
      [&] {
        Patcher patcher(model, original);
        write_file_atomically(path, patcher.bytes());
        return patcher.report();
      },
      [&] { return "in the ONNX model '" + original.string() + "'"; });
}

}  // namespace genesis::models::onnx
