#include <algorithm>

#include "tools/viz/other_formats/onnx_graph.h"
#include "tools/viz/other_formats/other_format_data.h"

namespace genesis::viz {
namespace {

using Kind = ShownValue::Kind;

// Returns "model.layers.0.attn.Add_output" for "/model/layers.0/attn/Add_output": exporters separate scopes by
// slashes.
std::string dotted(std::string name) {
  if (name.starts_with('/')) name.erase(0, 1);
  std::ranges::replace(name, '/', '.');
  return name;
}

// Returns the type's index; -1 if nothing is known of it.
int32_t type_index(const OnnxType& type, Tables& tables) {
  if (type.dtype == "unknown" && !type.has_shape) return -1;
  return tables.other_format_type(type.dtype, type.has_shape ? type.shape : std::vector<std::string>{"..."},
                                  type.bits);
}

// Numbers values as a page does: first those that no node computes, then the results of the nodes.
class OnnxColumns {
 public:
  OnnxColumns(const ShownGraph& graph, Tables& tables)
      : graph_(graph), tables_(tables), numbers_(graph.values.size(), -1) {
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].kind != Kind::kResult) add_value(i);
    first_ = static_cast<int32_t>(kind_.size());
    for (const ShownNode& node : graph.nodes) add_node(node);
  }

  Json graph() const {
    Json outputs = Json::array();
    for (const auto& [name, value] : graph_.outputs)
      outputs.push_back({name, numbers_[static_cast<size_t>(value)]});
    const std::vector<int32_t> none(op_.size(), -1), same(op_.size(), 0);
    return {{"values",
             {{"kind", kind_}, {"index", index_}, {"name", deltas(value_name_)}, {"type", value_type_}}},
            {"nodes",
             {{"op", op_},
              {"name", deltas(name_)},
              {"author", same},
              {"attributes", attributes_},
              {"cost", none},
              {"kernel", none},
              {"inputs", inputs_},
              {"outputs", outputs_}}},
            {"input", input_},
            {"output_type", output_type_},
            {"outputs", outputs},
            {"updates", Json::array()}};
  }

 private:
  void add_value(size_t i) {
    const ShownValue& value = graph_.values[i];
    numbers_[i] = static_cast<int32_t>(kind_.size());
    kind_.push_back(static_cast<int32_t>(value.kind));
    index_.push_back(value.index);
    value_name_.push_back(tables_.path(dotted(value.name)));
    value_type_.push_back(type_index(value.type, tables_));
  }

  void add_node(const ShownNode& node) {
    op_.push_back(tables_.string(node.op));
    name_.push_back(unique_path(node.path));
    attributes_.push_back(tables_.attributes(node.attributes));
    inputs_.push_back(static_cast<int32_t>(node.inputs.size()));
    outputs_.push_back(static_cast<int32_t>(node.outputs.size()));
    const auto table = static_cast<int32_t>(kind_.size());
    for (const int32_t value : node.inputs) {
      const int32_t number = numbers_[static_cast<size_t>(value)];
      input_.push_back(number < table ? -1 - number : first_ - number);
    }
    for (const int32_t value : node.outputs) {
      numbers_[static_cast<size_t>(value)] = first_++;
      output_type_.push_back(type_index(graph_.values[static_cast<size_t>(value)].type, tables_));
    }
  }

  // Returns the index of a unique name. Nodes of an ONNX file may share a name, so repeated names get a number here.
  int32_t unique_path(OnnxPath path) {
    const int32_t index = tables_.path(path);
    const int number = taken_[index]++;
    if (number == 0) return index;
    path.back() += "_" + std::to_string(number);
    return unique_path(std::move(path));
  }

  const ShownGraph& graph_;
  Tables& tables_;
  std::vector<int32_t> numbers_;  // page's number of each value
  std::map<int32_t, int> taken_;  // number of nodes that asked for each path
  std::vector<int32_t> kind_, index_, value_name_, value_type_;
  std::vector<int32_t> op_, name_, attributes_, inputs_, outputs_, input_, output_type_;
  int32_t first_ = 0;  // number of the next node's first result
};

}  // namespace

Json onnx_data(const OnnxFile& file, Tables& tables) {
  const ShownGraph graph = shown_graph(file);
  TensorColumns tensors;
  for (const OnnxTensor& tensor : graph.tensors) {
    tensors.name.push_back(tables.path(dotted(tensor.name)));
    tensors.type.push_back(tables.other_format_type(tensor.type.dtype, tensor.type.shape, tensor.type.bits));
    const Json bytes = tables.bytes_of_type(tensors.type.back());
    tensors.bytes.push_back(bytes.is_number() ? static_cast<int64_t>(bytes.get<double>()) : 0);
  }
  Json metadata = Json::array();
  for (const auto& [key, value] : file.metadata) metadata.push_back({key, value});
  const Json snapshot{
      {"kind", "author"}, {"name", "author"}, {"why", ""}, {"graph", OnnxColumns(graph, tables).graph()}};
  const Json entry{{"name", file.graph.name.empty() ? "graph" : file.graph.name},
                   {"sizes", Json::array()},
                   {"device", ""},
                   {"snapshots", Json::array({snapshot})},
                   {"budgets", Json::array()}};
  return {{"metadata", metadata},
          {"files", Json::array()},
          {"states", no_states()},
          {"tensors", tensors.json()},
          {"entries", Json::array({entry})}};
}

}  // namespace genesis::viz
