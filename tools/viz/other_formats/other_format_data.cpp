#include "tools/viz/other_formats/other_format_data.h"

#include <fmt/ranges.h>

#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/other_formats/gguf.h"
#include "schema/file/other_formats/safetensors.h"
#include "tools/viz/data/model_data.h"

namespace genesis::viz {
namespace {

Json tensors_alone(Json metadata, const TensorColumns& tensors) {
  return {{"metadata", std::move(metadata)},
          {"files", Json::array()},
          {"states", no_states()},
          {"tensors", tensors.json()},
          {"entries", Json::array()}};
}

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
  return tensors_alone(std::move(metadata), tensors);
}

// Returns the beginning of a list and its length. A vocabulary of 100,000 texts is recognized from its first ones.
template <class Item>
std::string list_text(const std::vector<Item>& list) {
  constexpr size_t kShown = 8;
  const std::vector<Item> first(list.begin(),
                                list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), kShown)));
  if (list.size() <= kShown) return fmt::format("[{}]", fmt::join(first, ", "));
  return fmt::format("[{}, ...] ({} in all)", fmt::join(first, ", "), list.size());
}

std::string text_of(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", static_cast<float>(*number));
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return list_text(*list);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return list_text(*list);
  return list_text(std::get<std::vector<std::string>>(value));
}

Json gguf_data(const std::filesystem::path& path, Tables& tables) {
  const Gguf file = read_gguf(path);
  TensorColumns tensors;
  for (const auto& [name, tensor] : file.tensors) {
    std::vector<std::string> shape;
    for (const Dim& dim : tensor.shape) shape.push_back(dim.to_string());
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    tensors.name.push_back(tables.path(name));
    tensors.type.push_back(tables.other_format_type(std::string(tensor.type->name), shape, 0));
    tensors.bytes.push_back(bytes);
  }
  Json metadata = Json::array();
  for (const auto& [key, value] : file.metadata) metadata.push_back({key, text_of(value)});
  return tensors_alone(std::move(metadata), tensors);
}

}  // namespace

Json no_states() {
  const Json none = Json::array();
  return {{"name", none}, {"type", none},      {"bytes", none},
          {"role", none}, {"trainable", none}, {"format", none}};
}

bool is_other_format(const std::filesystem::path& path) {
  const std::string ending = file_ending(path);
  return ending == ".onnx" || ending == ".safetensors" || ending == ".gguf";
}

Json other_format_data(const std::filesystem::path& path, Tables& tables) {
  const std::string ending = file_ending(path);
  Json data{{"format", ending.substr(1)}, {"file", path.string()}, {"file_bytes", size_of_file(path)}};
  if (ending == ".onnx")
    data.update(onnx_data(read_onnx(path), tables));
  else if (ending == ".gguf")
    data.update(gguf_data(path, tables));
  else
    data.update(safetensors_data(path, tables));
  return data;
}

}  // namespace genesis::viz
