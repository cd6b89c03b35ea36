#include "models/hugging_face/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hugging_face/conv1d.h"
#include "models/hugging_face/json_file.h"
#include "schema/file/foreign/safetensors.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

// Which file has which tensor. Names come from the file and must not lead out of the folder.
std::map<std::string, std::string> shards_of(const fs::path& index) {
  const json contents = read_json(index);
  const auto map = contents.is_object() ? contents.find("weight_map") : contents.end();
  if (!contents.is_object() || map == contents.end() || !map->is_object())
    fail("{}: expected an object with a weight_map", index.string());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) fail("{}: the file of tensor '{}' is no text", index.string(), tensor);
    const fs::path name = file.get<std::string>();
    if (name.empty() || name != name.filename() || name == ".." || name == ".")
      fail("{}: the file '{}' of tensor '{}' is not one of this folder", index.string(), name.string(),
           tensor);
    shards.emplace(tensor, name.string());
  }
  return shards;
}

void check_there(const fs::path& folder, const std::set<std::string>& files) {
  std::vector<std::string> missing;
  for (const std::string& file : files)
    if (!fs::exists(folder / file)) missing.push_back(file);
  if (!missing.empty())
    fail("{}: {} of {} files that {} lists are missing: {}", folder.string(), missing.size(), files.size(),
         kIndex, fmt::join(missing, ", "));
}

SafeTensors read_one(const fs::path& path, MappedFiles* read) {
  SafeTensors contents = read_safetensors(path);
  if (read) read->push_back(contents.file);
  return contents;
}

std::map<std::string, Tensor> read_shards(const fs::path& folder, MappedFiles* read) {
  const auto shards = shards_of(folder / kIndex);
  std::set<std::string> files;
  for (const auto& [tensor, file] : shards) files.insert(file);
  check_there(folder, files);
  std::map<std::string, Tensor> tensors;
  for (const std::string& file : files) {
    SafeTensors shard = read_one(folder / file, read);
    for (auto& [name, tensor] : shard.tensors) {
      const auto listed = shards.find(name);
      if (listed == shards.end() || listed->second != file)
        fail("{}: tensor '{}' is not where {} says", (folder / file).string(), name, kIndex);
      tensors.emplace(name, std::move(tensor));
    }
  }
  for (const auto& [name, file] : shards)
    if (!tensors.contains(name)) fail("{}: tensor '{}' is missing", (folder / file).string(), name);
  return tensors;
}

// Where a folder has both, transformers reads the single file.
std::map<std::string, Tensor> read_tensors(const fs::path& folder, MappedFiles* read) {
  if (fs::exists(folder / kSingle)) return read_one(folder / kSingle, read).tensors;
  if (fs::exists(folder / kIndex)) return read_shards(folder, read);
  fail(
      "{}: there is neither {} nor {}; weights in other formats (pytorch_model.bin) are saved anew by "
      "model.save_pretrained(FOLDER) of transformers",
      folder.string(), kSingle, kIndex);
}

bool ends_with_any(const std::string& name, std::initializer_list<const char*> ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

// Buffers that older versions of transformers saved.
bool is_no_weight(const std::string& name) {
  return ends_with_any(name, {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"});
}

// Checkpoints of GPT2Model, as the hub's first ones, lack the prefix of the language model around it.
std::string name_in_zoo(const std::string& name, const std::string& model) {
  const bool bare = model == "gpt2" && !name.starts_with("transformer.") && !name.starts_with("lm_head.");
  return bare ? "transformer." + name : name;
}

}  // namespace

NamedTensors read_weights(const fs::path& folder, const std::string& model, bool tied_head,
                          MappedFiles* files) {
  NamedTensors weights;
  std::map<std::string, Tensor> tensors = read_tensors(folder, files);
  for (auto& [name, tensor] : tensors) {
    if (is_no_weight(name) || (tied_head && name == "lm_head.weight")) continue;
    const bool turn = is_conv1d(model, name, tensor.type());
    weights.emplace(name_in_zoo(name, model), turn ? transposed(tensor) : std::move(tensor));
  }
  return weights;
}

}  // namespace genesis::models::hugging_face
