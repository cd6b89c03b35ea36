#include "schema/file/other_formats/onnx/model_file.h"

#include <fmt/ranges.h>

#include "schema/core/error.h"
#include "schema/file/other_formats/onnx/tensor.h"
#include "schema/file/other_formats/proto_reader.h"

namespace genesis {
namespace {

constexpr int kDeepestGraph = 32;  // depth of nested bodies

std::pair<std::string, std::string> read_pair(const ProtoMessage& message) {
  std::pair<std::string, std::string> pair;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) pair.first = field.text();
    if (field.number == 2) pair.second = field.text();
  });
  return pair;
}

OnnxGraph read_graph(const ProtoMessage& message, int depth);

std::shared_ptr<const OnnxGraph> read_body(const ProtoMessage& message, int depth) {
  if (depth > kDeepestGraph)
    fail("at byte {}: graphs within more than {} others", message.offset, kDeepestGraph);
  return std::make_shared<const OnnxGraph>(read_graph(message, depth));
}

std::string text_of(const OnnxAttribute& attribute, const std::vector<std::string>& texts) {
  if (!attribute.graphs.empty()) {
    std::vector<std::string> graphs;
    for (const auto& graph : attribute.graphs)
      graphs.push_back(
          fmt::format("a graph of {} node{}", graph->nodes.size(), graph->nodes.size() == 1 ? "" : "s"));
    return fmt::format("{}", fmt::join(graphs, ", "));
  }
  if (!texts.empty()) return fmt::format("[{}]", fmt::join(texts, ","));
  if (!attribute.integers.empty()) return fmt::format("[{}]", fmt::join(attribute.integers, ","));
  if (!attribute.reals.empty())
    return fmt::format("[{}]",
                       fmt::join(std::vector<float>(attribute.reals.begin(), attribute.reals.end()), ","));
  if (attribute.tensor) return onnx_text(*attribute.tensor);
  if (attribute.integer) return std::to_string(*attribute.integer);
  if (attribute.real) return fmt::format("{}", static_cast<float>(*attribute.real));
  return attribute.string ? "\"" + *attribute.string + "\"" : "[]";
}

OnnxAttribute read_attribute(const ProtoMessage& message, int depth) {
  OnnxAttribute made;
  std::vector<std::string> texts;  // elements of lists of texts or tensors
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) made.name = field.text();
    if (field.number == 2) made.real = field.as_float();
    if (field.number == 3) made.integer = field.as_signed();
    if (field.number == 4) made.string = field.text();
    if (field.number == 5) made.tensor = read_onnx_tensor(field.message());
    if (field.number == 6 || field.number == 11) made.graphs.push_back(read_body(field.message(), depth + 1));
    if (field.number == 7) append_floats(field, made.reals);
    if (field.number == 8) append_integers(field, made.integers);
    if (field.number == 9) made.strings.push_back(field.text());
    if (field.number == 10) made.tensors.push_back(read_onnx_tensor(field.message()));
    if (field.number == 21) made.reference = field.text();
    if (field.number == 22) made.tensor = read_onnx_sparse_tensor(field.message());
  });
  for (const std::string& text : made.strings) texts.push_back("\"" + text + "\"");
  for (const OnnxTensor& tensor : made.tensors) texts.push_back(onnx_text(tensor));
  made.text = text_of(made, texts);
  return made;
}

// Returns "model.layers.0" for "['', 'model', 'model.layers.0', 'linear']". PyTorch's exporter writes the modules
// around a node, the innermost last, followed by the node itself.
std::string innermost_module(const std::string& scopes) {
  std::vector<std::string> names;
  for (size_t at = scopes.find('\''); at != std::string::npos; at = scopes.find('\'', at)) {
    const size_t end = scopes.find('\'', at + 1);
    if (end == std::string::npos) break;
    names.push_back(scopes.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names.size() < 2 ? "" : names[names.size() - 2];
}

std::string op_in_domain(const std::string& domain, const std::string& op) {
  return domain.empty() || domain == "ai.onnx" ? op : domain + "::" + op;
}

OnnxNode read_node(const ProtoMessage& message, int depth) {
  OnnxNode node;
  std::string domain, overload;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) node.inputs.push_back(field.text());
    if (field.number == 2) node.outputs.push_back(field.text());
    if (field.number == 3) node.name = field.text();
    if (field.number == 4) node.op = field.text();
    if (field.number == 5) node.attributes.push_back(read_attribute(field.message(), depth));
    if (field.number == 7) domain = field.text();
    if (field.number == 8) overload = field.text();
    if (field.number != 9) return;
    if (const auto [key, value] = read_pair(field.message()); key == "pkg.torch.onnx.name_scopes")
      node.scope = innermost_module(value);
  });
  node.op = op_in_domain(domain, node.op);
  if (!overload.empty()) node.op += ":" + overload;
  return node;
}

OnnxGraph read_graph(const ProtoMessage& message, int depth) {
  OnnxGraph graph;
  const auto add_value = [&](const ProtoField& field, std::vector<std::string>* names) {
    auto [name, type] = read_onnx_value(field.message());
    if (names) names->push_back(name);
    graph.types[name] = std::move(type);
  };
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) graph.nodes.push_back(read_node(field.message(), depth));
    if (field.number == 2) graph.name = field.text();
    if (field.number == 5) graph.tensors.push_back(read_onnx_tensor(field.message()));
    if (field.number == 11) add_value(field, &graph.inputs);
    if (field.number == 12) add_value(field, &graph.outputs);
    if (field.number == 13) add_value(field, nullptr);
    if (field.number == 15) graph.tensors.push_back(read_onnx_sparse_tensor(field.message()));
  });
  return graph;
}

struct Opset {
  std::string domain = "ai.onnx";
  int64_t version = 0;
};

Opset read_opset(const ProtoMessage& message) {
  Opset opset;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1 && !field.text().empty()) opset.domain = field.text();
    if (field.number == 2) opset.version = field.as_signed();
  });
  return opset;
}

OnnxFunction read_function(const ProtoMessage& message) {
  OnnxFunction function;
  std::string name, domain, overload;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) name = field.text();
    if (field.number == 4) function.inputs.push_back(field.text());
    if (field.number == 5) function.outputs.push_back(field.text());
    if (field.number == 6) function.attributes.push_back(field.text());
    if (field.number == 7) function.nodes.push_back(read_node(field.message(), 0));
    if (field.number == 10) domain = field.text();
    if (field.number == 11) function.defaults.push_back(read_attribute(field.message(), 0));
    if (field.number == 13) overload = field.text();
    if (field.number != 9) return;
    const Opset opset = read_opset(field.message());
    function.opsets[opset.domain] = opset.version;
  });
  function.op = op_in_domain(domain, name);
  if (!overload.empty()) function.op += ":" + overload;
  return function;
}

}  // namespace

const OnnxAttribute* OnnxNode::attribute(std::string_view wanted) const {
  for (const OnnxAttribute& each : attributes)
    if (each.name == wanted) return &each;
  return nullptr;
}

OnnxFile read_onnx_from(std::span<const std::byte> bytes) {
  OnnxFile file;
  bool has_graph = false;
  for_each_field({bytes, 0}, [&](const ProtoField& field) {
    const auto add = [&](const char* key, std::string text) {
      file.metadata.emplace_back(key, std::move(text));
    };
    if (field.number == 1) add("ir_version", std::to_string(file.ir_version = field.as_signed()));
    if (field.number == 2) add("producer", field.text());
    if (field.number == 3) add("producer_version", field.text());
    if (field.number == 6) add("doc", field.text());
    if (field.number == 7) file.graph = read_graph(field.message(), 0), has_graph = true;
    if (field.number == 8) {
      const Opset opset = read_opset(field.message());
      add("opset", fmt::format("{} {}", opset.domain, opset.version));
      if (opset.domain == "ai.onnx") file.opset = opset.version;
      file.opsets[opset.domain] = opset.version;
    }
    if (field.number == 25) file.functions.push_back(read_function(field.message()));
    if (field.number == 14) file.metadata.push_back(read_pair(field.message()));
  });
  if (!has_graph) fail("there is no graph in it: this is no ONNX model");
  return file;
}

OnnxFile read_onnx(const std::filesystem::path& path) {
  const auto mapped = MappedFile::open(path);
  return with_context(
      [&] {
        OnnxFile file = read_onnx_from(mapped->bytes());
        file.file = mapped;
        return file;
      },
      [&] { return fmt::format("while reading '{}' as an ONNX model", path.string()); });
}

}  // namespace genesis
