#include "models/hugging_face/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
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

// What checkpoints of the model without its head lack at the front of every name: GPT2Model's, the hub's first ones, and
// Qwen2Model's, as models that embed texts come.
std::string missing_prefix(const std::map<std::string, Tensor>& tensors, const std::string& model) {
  if (model == "gpt2") return tensors.contains("wte.weight") ? "transformer." : "";
  return tensors.contains("embed_tokens.weight") ? "model." : "";
}

bool is_head(const std::string& name) { return name.starts_with("lm_head."); }

bool have_same_numbers(const Tensor& a, const Tensor& b) {
  if (a.type() == b.type()) return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
  return a.type().shape == b.type().shape && a.to_doubles() == b.to_doubles();
}

// transformers 5 takes a head that is another matrix for one of its own, whatever the configuration says; its forerunners
// left it out.
void check_tied(const NamedTensors& weights, const Tensor& head, const std::string& model) {
  const auto embedding =
      weights.find(model == "gpt2" ? "transformer.wte.weight" : "model.embed_tokens.weight");
  if (embedding == weights.end()) return;  // refused where all weights are there
  const Tensor& tied = embedding->second;
  if (have_same_numbers(tied, head)) return;
  fail(
      "lm_head.weight is another matrix than {}, though the configuration ties them (tie_word_embeddings): "
      "give --set tie_word_embeddings=false to keep it, as transformers 5 does, or =true to go without it, "
      "as transformers 4 "
      "does",
      embedding->first);
}

}  // namespace

NamedTensors read_weights(const fs::path& folder, const std::string& model, Head head, MappedFiles* files) {
  NamedTensors weights;
  std::map<std::string, Tensor> tensors = read_tensors(folder, files);
  const std::string prefix = missing_prefix(tensors, model);
  std::optional<Tensor> left_out;
  for (auto& [name, tensor] : tensors) {
    const std::string known = is_head(name) ? name : prefix + name;
    if (is_no_weight(known)) continue;
    if (head != Head::kOwn && name == "lm_head.weight")
      left_out = std::move(tensor);
    else
      weights.emplace(known, is_conv1d(model, name, tensor.type()) ? transposed(tensor) : std::move(tensor));
  }
  if (left_out && head == Head::kTied)
    with_context([&] { check_tied(weights, *left_out, model); }, [&] { return folder.string(); });
  return weights;
}

}  // namespace genesis::models::hugging_face
