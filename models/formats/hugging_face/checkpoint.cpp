#include "models/formats/hugging_face/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "models/formats/hugging_face/conv1d.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "models/formats/hugging_face/text_part.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/messages/log.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

// Returns the file of each tensor. File names come from the index and must not lead out of the folder.
std::map<std::string, std::string> shards_of(const fs::path& index) {
  const json contents = read_json_object(index);
  const auto map = contents.find("weight_map");
  if (map == contents.end() || !map->is_object())
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

// The tensors of a folder by name, with the files that they are in.
struct FolderTensors {
  NamedTensors tensors;
  OtherTensors others;
  std::map<std::string, std::string> files;  // file by name of a tensor
};

void read_one(const fs::path& path, MappedFiles* read, FolderTensors& all) {
  OtherTensors others;
  SafeTensors contents = read_safetensors(path, &others);
  if (read) read->push_back(contents.file);
  const auto add = [&](const std::string& name) {
    const auto [at, is_new] = all.files.emplace(name, path.filename().string());
    if (!is_new) fail("{}: tensor '{}' is in {} too", path.string(), name, at->second);
  };
  for (auto& [name, tensor] : contents.tensors) {
    add(name);
    all.tensors.emplace(name, std::move(tensor));
  }
  for (auto& [name, tensor] : others) {
    add(name);
    all.others.emplace(name, std::move(tensor));
  }
}

// Warns of an index that was written for other files. The contents of the files count, as in transformers.
void warn_of_stale_index(const fs::path& index, const std::map<std::string, std::string>& listed_files,
                         const FolderTensors& found) {
  std::vector<std::string> absent, elsewhere;
  for (const auto& [name, file] : listed_files) {
    const auto at = found.files.find(name);
    if (at == found.files.end())
      absent.push_back(name);
    else if (at->second != file)
      elsewhere.push_back(name);
  }
  for (const auto& [name, file] : found.files)
    if (!listed_files.contains(name)) elsewhere.push_back(name);
  if (!absent.empty()) log_warning("{} lists tensors that no file has: {}", index.string(), listed(absent));
  if (!elsewhere.empty())
    log_warning("{} does not say in which files these tensors are: {}", index.string(), listed(elsewhere));
}

FolderTensors read_shards(const fs::path& folder, MappedFiles* read) {
  const auto shards = shards_of(folder / kIndex);
  std::set<std::string> files;
  for (const auto& [tensor, file] : shards) files.insert(file);
  check_there(folder, files);
  FolderTensors all;
  for (const std::string& file : files) read_one(folder / file, read, all);
  warn_of_stale_index(folder / kIndex, shards, all);
  return all;
}

// Reads the tensors of a folder. If it has both a single file and an index, transformers reads the single file, too.
FolderTensors read_tensors(const fs::path& folder, MappedFiles* read) {
  if (fs::exists(folder / kSingle)) {
    FolderTensors all;
    read_one(folder / kSingle, read, all);
    return all;
  }
  if (fs::exists(folder / kIndex)) return read_shards(folder, read);
  fail(
      "{}: there is neither {} nor {}; weights in other formats (pytorch_model.bin) are saved anew by "
      "model.save_pretrained(FOLDER) of transformers",
      folder.string(), kSingle, kIndex);
}

bool ends_with_any(const std::string& name, std::initializer_list<const char*> ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

// Returns true for buffers that older versions of transformers saved, in any dtype.
bool is_no_weight(const std::string& name) {
  return ends_with_any("." + name,
                       {".attn.bias", ".attn.masked_bias", ".crossattention.bias", ".rotary_emb.inv_freq",
                        ".rotary_emb.original_inv_freq", ".position_ids"});
}

// Returns the prefix that all names of a checkpoint without a head lack, or "". It concerns checkpoints of GPT2Model (the first
// ones on the hub) and of Qwen2Model (text-embedding models).
std::string missing_prefix(const FolderTensors& folder, const HuggingFaceForm& form) {
  return folder.files.contains(form.embedding.substr(form.prefix.size())) ? form.prefix : "";
}

// Takes the quantized weights out of the tensors.
quantized::EncodedWeights encoded_in(FolderTensors& folder, const json& quantization) {
  if (quantization.is_null()) return {};
  quantized::StoredTensors stored(folder.tensors, folder.others);
  return quantized::take_encoded(quantization, stored);
}

bool is_head(const std::string& name) { return name.starts_with("lm_head."); }

bool have_same_numbers(const Tensor& a, const Tensor& b) {
  if (a.type() == b.type()) return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
  return a.type().shape == b.type().shape && a.to_doubles() == b.to_doubles();
}

// Throws Error if the head is not the embedding. transformers 5 would keep such a head, whatever the configuration says; earlier
// versions dropped it.
void check_tied(const NamedTensors& weights, const Tensor& head, const HuggingFaceForm& form) {
  const auto embedding = weights.find(form.embedding);
  if (embedding == weights.end()) return;  // missing weights are refused later
  const Tensor& tied = embedding->second;
  if (have_same_numbers(tied, head)) return;
  fail(
      "lm_head.weight is another matrix than {}, though the configuration ties them (tie_word_embeddings): "
      "give --set tie_word_embeddings=false to keep it, as transformers 5 does, or =true to go without it, "
      "as transformers 4 "
      "does",
      embedding->first);
}

// Returns a name as version 5 of transformers has it: the first checkpoints of BERT have gamma and beta for the weight and the bias
// of a LayerNorm.
std::string newer_name(const std::string& name) {
  for (const auto& [old, newer] :
       {std::pair(".LayerNorm.gamma", ".LayerNorm.weight"), {".LayerNorm.beta", ".LayerNorm.bias"}})
    if (name.ends_with(old)) return name.substr(0, name.size() - std::strlen(old)) + newer;
  return text_name(name);
}

// Leaves out tensors that the family ties to others. Throws Error for one with other values.
void leave_out_tied(CheckpointWeights& weights, const HuggingFaceForm& form) {
  for (const auto& [name, other] : form.tied) {
    const auto found = weights.tensors.find(name), kept = weights.tensors.find(other);
    if (found == weights.tensors.end() || name == other) continue;
    if (kept == weights.tensors.end())
      weights.tensors.emplace(other, found->second);
    else if (!have_same_numbers(kept->second, found->second))
      fail("{} has other values than {}, though both are one tensor in transformers", name, other);
    weights.tensors.erase(name);
  }
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(names.size(), kShown);
  const auto begin = names.begin();
  const std::string list = fmt::format("{}", fmt::join(begin, begin + static_cast<ptrdiff_t>(shown), ", "));
  return shown == names.size() ? list : fmt::format("{} and {} more", list, names.size() - shown);
}

CheckpointWeights read_weights(const fs::path& folder, const Family& family, Head head,
                               const json& quantization, MappedFiles* files) {
  CheckpointWeights weights;
  FolderTensors found = read_tensors(folder, files);
  quantized::EncodedWeights encoded =
      with_context([&] { return encoded_in(found, quantization); }, [&] { return folder.string(); });
  const std::string prefix = missing_prefix(found, *family.hugging_face);
  const auto known_name = [&](const std::string& name) { return is_head(name) ? name : prefix + name; };
  std::optional<Tensor> left_out;
  for (auto& [stored_name, tensor] : found.tensors) {
    const std::string name = newer_name(stored_name);
    if (is_no_weight(name)) continue;
    if (head != Head::kOwn && name == "lm_head.weight")
      left_out = std::move(tensor);
    else
      weights.tensors.emplace(
          known_name(name), is_conv1d(family, name, tensor.type()) ? transposed(tensor) : std::move(tensor));
  }
  for (auto& [stored_name, weight] : encoded)
    if (const std::string name = text_name(stored_name); head == Head::kOwn || !is_head(name))
      weights.encoded.emplace(known_name(name), std::move(weight));
  for (const auto& [name, tensor] : found.others)
    if (!is_no_weight(name)) weights.unsupported.emplace(known_name(name), tensor.dtype);
  if (left_out && head == Head::kTied)
    with_context([&] { check_tied(weights.tensors, *left_out, *family.hugging_face); },
                 [&] { return folder.string(); });
  with_context([&] { leave_out_tied(weights, *family.hugging_face); }, [&] { return folder.string(); });
  return weights;
}

}  // namespace genesis::models::hugging_face
