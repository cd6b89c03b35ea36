#include "tools/viz/foreign/onnx_file.h"

#include <fmt/ranges.h>

#include "schema/core/error.h"
#include "schema/file/io/mapped_file.h"
#include "tools/viz/foreign/proto_reader.h"

namespace genesis::viz {
namespace {

struct ElementType {
  const char* name;
  int64_t bits;
};

// By number of TensorProto.DataType.
constexpr ElementType kElementTypes[] = {
    {"unknown", 0},    {"f32", 32},   {"u8", 8},         {"i8", 8},           {"u16", 16},  {"i16", 16},
    {"i32", 32},       {"i64", 64},   {"string", 0},     {"bool", 8},         {"f16", 16},  {"f64", 64},
    {"u32", 32},       {"u64", 64},   {"complex64", 64}, {"complex128", 128}, {"bf16", 16}, {"f8e4m3fn", 8},
    {"f8e4m3fnuz", 8}, {"f8e5m2", 8}, {"f8e5m2fnuz", 8}, {"u4", 4},           {"i4", 4},    {"f4e2m1", 4}};

void set_element(uint64_t number, OnnxType& type) {
  const ElementType& element = kElementTypes[number < std::size(kElementTypes) ? number : 0];
  type.dtype = element.name;
  type.bits = element.bits;
}

// Calls visit(field) for every field of the message.
template <class Visit>
void for_each_field(const ProtoMessage& message, const Visit& visit) {
  ProtoReader reader(message);
  for (ProtoField field; reader.next(field);) visit(field);
}

std::pair<std::string, std::string> read_pair(const ProtoMessage& message) {
  std::pair<std::string, std::string> pair;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) pair.first = field.text();
    if (field.number == 2) pair.second = field.text();
  });
  return pair;
}

std::string read_dim(const ProtoMessage& message) {
  std::string dim = "?";
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) dim = std::to_string(field.as_signed());
    if (field.number == 2) dim = field.text();
  });
  return dim;
}

void read_tensor_type(const ProtoMessage& message, OnnxType& type) {
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) set_element(field.integer, type);
    if (field.number != 2) return;
    for_each_field(field.message(), [&](const ProtoField& dim) {
      if (dim.number == 1) type.shape.push_back(read_dim(dim.message()));
    });
  });
}

std::pair<std::string, OnnxType> read_value(const ProtoMessage& message) {
  std::pair<std::string, OnnxType> value;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) value.first = field.text();
    if (field.number != 2) return;
    for_each_field(field.message(), [&](const ProtoField& kind) {
      if (kind.number == 1) read_tensor_type(kind.message(), value.second);
      if (kind.number == 4 || kind.number == 5) value.second.dtype = "sequence";
    });
  });
  return value;
}

OnnxTensor read_tensor(const ProtoMessage& message) {
  OnnxTensor tensor;
  std::vector<int64_t> dims;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) append_integers(field, dims);
    if (field.number == 2) set_element(field.integer, tensor.type);
    if (field.number == 8) tensor.name = field.text();
  });
  for (const int64_t dim : dims) tensor.type.shape.push_back(std::to_string(dim));
  return tensor;
}

std::string tensor_text(const ProtoMessage& message) {
  const OnnxTensor tensor = read_tensor(message);
  return fmt::format("{}[{}]", tensor.type.dtype, fmt::join(tensor.type.shape, ","));
}

// Graphs within nodes (of If and Loop) are counted, not shown.
std::string graph_text(const ProtoMessage& message) {
  size_t nodes = 0;
  for_each_field(message, [&](const ProtoField& field) { nodes += field.number == 1; });
  return fmt::format("a graph of {} nodes", nodes);
}

std::pair<std::string, std::string> read_attribute(const ProtoMessage& message) {
  std::string name, text;
  std::vector<int64_t> integers;
  std::vector<double> floats;
  std::vector<std::string> texts;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) name = field.text();
    if (field.number == 2) text = fmt::format("{}", field.as_float());
    if (field.number == 3) text = std::to_string(field.as_signed());
    if (field.number == 4) text = "\"" + field.text() + "\"";
    if (field.number == 5) text = tensor_text(field.message());
    if (field.number == 6) text = graph_text(field.message());
    if (field.number == 7) append_floats(field, floats);
    if (field.number == 8) append_integers(field, integers);
    if (field.number == 9) texts.push_back("\"" + field.text() + "\"");
    if (field.number == 10) texts.push_back(tensor_text(field.message()));
    if (field.number == 11) texts.push_back(graph_text(field.message()));
  });
  if (!floats.empty()) text = fmt::format("[{}]", fmt::join(floats, ","));
  if (!integers.empty()) text = fmt::format("[{}]", fmt::join(integers, ","));
  if (!texts.empty()) text = fmt::format("[{}]", fmt::join(texts, ","));
  return {name, text};
}

OnnxNode read_node(const ProtoMessage& message) {
  OnnxNode node;
  std::string domain;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) node.inputs.push_back(field.text());
    if (field.number == 2) node.outputs.push_back(field.text());
    if (field.number == 3) node.name = field.text();
    if (field.number == 4) node.op = field.text();
    if (field.number == 5) node.attributes.push_back(read_attribute(field.message()));
    if (field.number == 7) domain = field.text();
  });
  if (!domain.empty() && domain != "ai.onnx") node.op = domain + "::" + node.op;
  return node;
}

void read_graph(const ProtoMessage& message, OnnxFile& file) {
  const auto add_value = [&](const ProtoField& field, std::vector<std::string>* names) {
    auto [name, type] = read_value(field.message());
    if (names) names->push_back(name);
    file.types[name] = std::move(type);
  };
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) file.nodes.push_back(read_node(field.message()));
    if (field.number == 2) file.graph = field.text();
    if (field.number == 5) file.tensors.push_back(read_tensor(field.message()));
    if (field.number == 11) add_value(field, &file.inputs);
    if (field.number == 12) add_value(field, &file.outputs);
    if (field.number == 13) add_value(field, nullptr);
  });
}

// "ai.onnx 17"
std::string read_opset(const ProtoMessage& message) {
  std::string domain = "ai.onnx", version;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1 && !field.text().empty()) domain = field.text();
    if (field.number == 2) version = std::to_string(field.as_signed());
  });
  return domain + " " + version;
}

}  // namespace

OnnxFile read_onnx_from(std::span<const std::byte> bytes) {
  OnnxFile file;
  bool has_graph = false;
  for_each_field({bytes, 0}, [&](const ProtoField& field) {
    const auto add = [&](const char* key, std::string text) {
      file.metadata.emplace_back(key, std::move(text));
    };
    if (field.number == 1) add("ir_version", std::to_string(field.as_signed()));
    if (field.number == 2) add("producer", field.text());
    if (field.number == 3) add("producer_version", field.text());
    if (field.number == 6) add("doc", field.text());
    if (field.number == 7) read_graph(field.message(), file), has_graph = true;
    if (field.number == 8) add("opset", read_opset(field.message()));
    if (field.number == 14) file.metadata.push_back(read_pair(field.message()));
  });
  if (!has_graph) fail("there is no graph in it: this is no ONNX model");
  return file;
}

OnnxFile read_onnx(const std::filesystem::path& path) {
  const auto mapped = MappedFile::open(path);
  return with_context([&] { return read_onnx_from(mapped->bytes()); },
                      [&] { return fmt::format("while reading '{}' as an ONNX model", path.string()); });
}

}  // namespace genesis::viz
