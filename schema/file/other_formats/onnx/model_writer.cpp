#include "schema/file/other_formats/onnx/model_writer.h"

#include <span>

#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/other_formats/onnx/tensor_data.h"
#include "schema/file/other_formats/proto_writer.h"

namespace genesis {
namespace {

constexpr int64_t kSmallest = 1024;     // bytes of an initializer in a file of its own
constexpr int64_t kAlignment = 1 << 6;  // values in that file begin at multiples of it

// Numbers of AttributeProto.AttributeType.
constexpr int64_t kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kInts = 7, kStrings = 8;

std::string attribute(const std::string& name, int64_t kind, const std::string& value) {
  return proto_piece(5, proto_piece(1, name) + value + proto_integer(20, kind));
}

int64_t element_number(DType dtype) { return static_cast<int64_t>(onnx_element_of(dtype)); }

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> span_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Returns dims, data_type and name of a TensorProto.
std::string tensor_head(const std::string& name, const Tensor& tensor) {
  std::string head;
  for (const int64_t size : tensor.shape().sizes()) head += proto_integer(1, size);
  return head + proto_integer(2, element_number(tensor.dtype())) + (name.empty() ? "" : proto_piece(8, name));
}

std::string value_info(const std::string& name, const TensorType& type) {
  std::string shape;
  for (const Dim& dim : type.shape)
    shape +=
        proto_piece(1, dim.is_constant() ? proto_integer(1, dim.value()) : proto_piece(2, dim.to_string()));
  const std::string tensor = proto_integer(1, element_number(type.dtype)) + proto_piece(2, shape);
  return proto_piece(1, name) + proto_piece(2, proto_piece(1, tensor));
}

std::string node_bytes(const OnnxNodeRecord& node) {
  std::string bytes;
  for (const std::string& input : node.inputs) bytes += proto_piece(1, input);
  for (const std::string& output : node.outputs) bytes += proto_piece(2, output);
  return bytes + proto_piece(3, node.name) + proto_piece(4, node.op) + node.attributes;
}

// A part of the file: bytes made here, then the values of a tensor that stay where they are.
struct Part {
  std::string head;
  std::span<const std::byte> values = {};
};

class Writer {
 public:
  Writer(const OnnxModelRecord& model, std::filesystem::path path, int64_t most_inside)
      : model_(model), path_(std::move(path)), data_path_(path_.string() + ".data") {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : model.initializers) bytes += tensor.bytes();
    is_external_ = bytes > most_inside;
  }

  std::vector<std::filesystem::path> write() {
    std::vector<std::filesystem::path> files = {path_};
    for (const OnnxNodeRecord& node : model_.nodes) graph(proto_piece(1, node_bytes(node)));
    graph(proto_piece(2, model_.graph_name));
    for (const auto& [name, tensor] : model_.initializers) initializer(name, tensor);
    for (const auto& [name, type] : model_.inputs) graph(proto_piece(11, value_info(name, type)));
    for (const auto& [name, type] : model_.outputs) graph(proto_piece(12, value_info(name, type)));
    if (!outside_.empty()) write_data(), files.push_back(data_path_);
    write_model();
    return files;
  }

 private:
  void graph(const std::string& bytes, std::span<const std::byte> values = {}) {
    if (parts_.empty() || !parts_.back().values.empty()) parts_.push_back({});
    parts_.back().head += bytes;
    parts_.back().values = values;
    size_ += bytes.size() + values.size();
  }

  void initializer(const std::string& name, const Tensor& tensor) {
    const std::string head = tensor_head(name, tensor);
    if (is_external_ && tensor.bytes() >= kSmallest) return graph(proto_piece(5, head + external(tensor)));
    const std::string raw = proto_piece_head(9, static_cast<uint64_t>(tensor.bytes()));
    const uint64_t size = head.size() + raw.size() + static_cast<uint64_t>(tensor.bytes());
    graph(proto_piece_head(5, size) + head + raw, bytes_of(tensor));
  }

  std::string external(const Tensor& tensor) {
    const int64_t offset = (outside_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    outside_.push_back({offset, bytes_of(tensor)});
    outside_bytes_ = offset + tensor.bytes();
    const auto entry = [](const std::string& key, const std::string& value) {
      return proto_piece(13, proto_piece(1, key) + proto_piece(2, value));
    };
    return entry("location", data_path_.filename().string()) + entry("offset", std::to_string(offset)) +
           entry("length", std::to_string(tensor.bytes())) + proto_integer(14, 1);
  }

  void write_data() const {
    AtomicFile file(data_path_, static_cast<uint64_t>(outside_bytes_));
    int64_t at = 0;
    for (const auto& [offset, values] : outside_) {
      file.write_zeros(static_cast<uint64_t>(offset - at));
      file.write(values);
      at = offset + static_cast<int64_t>(values.size());
    }
    file.commit();
  }

  void write_model() const {
    const std::string before = proto_integer(1, model_.ir_version) + proto_piece(2, "genesis") +
                               proto_piece(3, model_.producer_version) + proto_piece_head(7, size_);
    std::string behind = proto_piece(8, proto_piece(1, "") + proto_integer(2, model_.opset));
    for (const auto& [key, value] : model_.metadata)
      behind += proto_piece(14, proto_piece(1, key) + proto_piece(2, value));
    const uint64_t total = before.size() + size_ + behind.size();
    if (total >= (uint64_t{1} << 31))
      fail("{} would have {} bytes, and the limit is 2 GiB", path_.string(), total);
    AtomicFile file(path_, total);
    file.write(span_of(before));
    for (const Part& part : parts_) file.write(span_of(part.head)), file.write(part.values);
    file.write(span_of(behind));
    file.commit();
  }

  const OnnxModelRecord& model_;
  std::filesystem::path path_, data_path_;
  bool is_external_ = false;
  std::vector<Part> parts_;  // the graph's bytes
  uint64_t size_ = 0;
  std::vector<std::pair<int64_t, std::span<const std::byte>>> outside_;  // by place in the other file
  int64_t outside_bytes_ = 0;
};

}  // namespace

std::string onnx_attribute(const std::string& name, int64_t value) {
  return attribute(name, kInt, proto_integer(3, value));
}
std::string onnx_attribute(const std::string& name, double value) {
  return attribute(name, kFloat, proto_float(2, static_cast<float>(value)));
}
std::string onnx_attribute(const std::string& name, const std::string& value) {
  return attribute(name, kString, proto_piece(4, value));
}
std::string onnx_attribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) bytes += proto_integer(8, value);
  return attribute(name, kInts, bytes);
}
std::string onnx_attribute(const std::string& name, const std::vector<std::string>& values) {
  std::string bytes;
  for (const std::string& value : values) bytes += proto_piece(9, value);
  return attribute(name, kStrings, bytes);
}
std::string onnx_attribute(const std::string& name, const Tensor& value) {
  return attribute(name, kTensor,
                   proto_piece(5, tensor_head("", value) + proto_piece(9, text_of(bytes_of(value)))));
}

std::string onnx_attribute(const std::string& name, const OnnxGraphRecord& value) {
  std::string graph;
  for (const OnnxNodeRecord& node : value.nodes) graph += proto_piece(1, node_bytes(node));
  graph += proto_piece(2, value.name);
  for (const auto& [input, type] : value.inputs) graph += proto_piece(11, value_info(input, type));
  for (const auto& [output, type] : value.outputs) graph += proto_piece(12, value_info(output, type));
  return attribute(name, kGraph, proto_piece(6, graph));
}

std::vector<std::filesystem::path> write_onnx(const OnnxModelRecord& model, const std::filesystem::path& path,
                                              int64_t most_inside) {
  return Writer(model, path, most_inside).write();
}

}  // namespace genesis
