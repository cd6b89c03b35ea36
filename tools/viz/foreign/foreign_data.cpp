#include "tools/viz/foreign/foreign_data.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/file/foreign/safetensors.h"
#include "schema/file/io/file_ending.h"
#include "tools/viz/data/model_data.h"

namespace genesis::viz {
namespace {

enum Kind : int32_t { kInput = 0, kConstant = 2 };

// "/model/layers.0/attn/MatMul" -> "model.layers.0.attn.MatMul": slashes are what PyTorch's exporter writes for scopes.
std::string dotted(std::string name) {
  if (name.starts_with('/')) name.erase(0, 1);
  std::ranges::replace(name, '/', '.');
  return name;
}

// Values of a graph by name, in the order in which a page numbers them.
class OnnxColumns {
 public:
  OnnxColumns(const OnnxFile& file, Tables& tables) : file_(file), tables_(tables) {
    for (size_t i = 0; i < file.tensors.size(); ++i)
      add_value(file.tensors[i].name, kConstant, static_cast<int32_t>(i));
    for (size_t i = 0; i < file.inputs.size(); ++i)
      add_value(file.inputs[i], kInput, static_cast<int32_t>(i));
    add_what_nobody_makes();
    first_ = static_cast<int32_t>(numbers_.size());
    for (const OnnxNode& node : file.nodes) add_node(node);
  }

  Json graph() const {
    Json outputs = Json::array();
    for (const std::string& output : file_.outputs)
      if (const auto at = numbers_.find(output); at != numbers_.end())
        outputs.push_back({output, at->second});
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
  int32_t type_of(const std::string& value) {
    const auto at = file_.types.find(value);
    const OnnxType type = at == file_.types.end() ? OnnxType{} : at->second;
    return tables_.foreign_type(type.dtype, type.shape, type.bits);
  }

  void add_value(const std::string& name, Kind kind, int32_t index) {
    if (!numbers_.try_emplace(name, static_cast<int32_t>(numbers_.size())).second)
      return;  // an input with a default
    kind_.push_back(kind);
    index_.push_back(index);
    value_name_.push_back(tables_.path(dotted(name)));
    const OnnxType* type = kind == kConstant ? &file_.tensors[static_cast<size_t>(index)].type : nullptr;
    value_type_.push_back(type ? tables_.foreign_type(type->dtype, type->shape, type->bits) : type_of(name));
  }

  // A node that reads what comes later, or from a graph around this one: it stands like an input.
  void add_what_nobody_makes() {
    std::map<std::string, bool> made;
    for (const OnnxNode& node : file_.nodes) {
      for (const std::string& input : node.inputs)
        if (!input.empty() && !made.contains(input)) add_value(input, kInput, -1);
      for (const std::string& output : node.outputs) made[output] = true;
    }
  }

  void add_node(const OnnxNode& node) {
    op_.push_back(tables_.string(node.op));
    name_.push_back(tables_.path(unique_name(node)));
    attributes_.push_back(tables_.attributes(node.attributes));
    const auto count = [](const auto& names) {
      return static_cast<int32_t>(std::ranges::count_if(names, [](const auto& n) { return !n.empty(); }));
    };
    inputs_.push_back(count(node.inputs));
    outputs_.push_back(static_cast<int32_t>(node.outputs.size()));
    const int32_t table = static_cast<int32_t>(kind_.size());
    for (const std::string& name : node.inputs) {
      if (name.empty()) continue;  // an optional input that is left out
      const int32_t number = numbers_.at(name);
      input_.push_back(number < table ? -1 - number : first_ - number);
    }
    for (const std::string& name : node.outputs) {
      if (!name.empty()) numbers_.try_emplace(name, first_);
      ++first_;
      output_type_.push_back(type_of(name));
    }
  }

  std::string unique_name(const OnnxNode& node) {
    std::string name = dotted(node.name);
    if (name.empty())
      name = node.outputs.empty() || node.outputs[0].empty() ? node.op : dotted(node.outputs[0]);
    const int number = names_[name]++;
    return number == 0 ? name : name + "_" + std::to_string(number);
  }

  const OnnxFile& file_;
  Tables& tables_;
  std::map<std::string, int32_t> numbers_;  // of values
  std::map<std::string, int> names_;        // of nodes, and how often each is taken
  std::vector<int32_t> kind_, index_, value_name_, value_type_;
  std::vector<int32_t> op_, name_, attributes_, inputs_, outputs_, input_, output_type_;
  int32_t first_ = 0;  // number of the next node's first result
};

Json no_states() {
  const Json none = Json::array();
  return {{"name", none}, {"type", none},      {"bytes", none},
          {"role", none}, {"trainable", none}, {"format", none}};
}

int64_t bytes_of(const Json& type) { return type.is_number() ? static_cast<int64_t>(type.get<double>()) : 0; }

struct TensorColumns {
  std::vector<int32_t> name, type;
  std::vector<int64_t> bytes;
  Json json() const { return {{"name", deltas(name)}, {"type", type}, {"bytes", bytes}}; }
};

Json safetensors_data(const std::filesystem::path& path, Tables& tables) {
  const SafeTensors file = read_safetensors(path);
  TensorColumns tensors;
  for (const auto& [name, tensor] : file.tensors) {
    tensors.name.push_back(tables.path(name));
    tensors.type.push_back(tables.type(tensor.type()));
    tensors.bytes.push_back(tensor.bytes());
  }
  Json metadata = Json::array();
  for (const auto& [key, value] : file.metadata) metadata.push_back({key, value});
  return {{"metadata", metadata},
          {"files", Json::array()},
          {"states", no_states()},
          {"tensors", tensors.json()},
          {"entries", Json::array()}};
}

}  // namespace

bool is_foreign(const std::filesystem::path& path) {
  return file_ending(path) == ".onnx" || file_ending(path) == ".safetensors";
}

Json onnx_data(const OnnxFile& file, Tables& tables) {
  TensorColumns tensors;
  for (const OnnxTensor& tensor : file.tensors) {
    tensors.name.push_back(tables.path(dotted(tensor.name)));
    tensors.type.push_back(tables.foreign_type(tensor.type.dtype, tensor.type.shape, tensor.type.bits));
    tensors.bytes.push_back(bytes_of(tables.bytes_of_type(tensors.type.back())));
  }
  Json metadata = Json::array();
  for (const auto& [key, value] : file.metadata) metadata.push_back({key, value});
  const Json snapshot{
      {"kind", "author"}, {"name", "author"}, {"why", ""}, {"graph", OnnxColumns(file, tables).graph()}};
  const Json entry{{"name", file.graph.empty() ? "graph" : file.graph},
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

Json foreign_data(const std::filesystem::path& path, Tables& tables) {
  const bool is_onnx = file_ending(path) == ".onnx";
  Json data{{"format", is_onnx ? "onnx" : "safetensors"},
            {"file", path.string()},
            {"file_bytes", size_of_file(path)}};
  data.update(is_onnx ? onnx_data(read_onnx(path), tables) : safetensors_data(path, tables));
  return data;
}

}  // namespace genesis::viz
