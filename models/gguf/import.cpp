#include "models/gguf/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/state_dict.h"
#include "models/gguf/config.h"
#include "models/gguf/names.h"
#include "models/gguf/tokenizer.h"
#include "models/hugging_face/export_config.h"
#include "models/hugging_face/import.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/file_ending.h"

namespace genesis::models::gguf {
namespace {

void check_types(const Gguf& file) {
  std::map<std::string, int> unread;
  for (const auto& [name, tensor] : file.tensors)
    if (!tensor.type->is_readable()) ++unread[tensor.type->name];
  std::vector<std::string> lines;
  for (const auto& [type, count] : unread) lines.push_back(fmt::format("{} ({} tensors)", type, count));
  if (!lines.empty())
    fail("its weights are in types that are not read: {}; read are F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K",
         fmt::join(lines, ", "));
}

// Head by head from pairs (0, h/2, 1, h/2 + 1, ...) to (0, 1, 2, ...).
Tensor without_pairs(const Tensor& matrix, int64_t head_size) {
  const int64_t rows = matrix.type().shape[0].value();
  if (head_size <= 0 || rows % head_size != 0 || head_size % 2 != 0) return matrix;  // refused by its shape
  const int64_t row_bytes = rows == 0 ? 0 : matrix.bytes() / rows;
  std::byte* data;
  Tensor result = Tensor::uninitialized(matrix.type(), &data);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_size * head_size, i = row % head_size;
    const int64_t source = head + i % (head_size / 2) * 2 + i / (head_size / 2);
    std::memcpy(data + row * row_bytes, matrix.data() + source * row_bytes, static_cast<size_t>(row_bytes));
  }
  return result;
}

bool same_bytes(const GgufTensor& a, const GgufTensor& b) {
  return a.type == b.type && std::ranges::equal(a.bytes, b.bytes);
}

// GPT-2's head is its embedding; some files have it twice.
bool is_tied_head(const std::string& name, const Gguf& file, const std::string& model) {
  if (model != "gpt2" || name != "output.weight") return false;
  const auto embedding = file.tensors.find("token_embd.weight");
  if (embedding == file.tensors.end() || !same_bytes(file.tensors.at(name), embedding->second))
    fail("its head output.weight is not its embedding token_embd.weight, as it has to be in GPT-2");
  return true;
}

// `head_size` is 0 for GPT-2, whose rows are all in order.
NamedTensors weights_of(const Gguf& file, const Model& model, const std::string& name_of_model,
                        int64_t head_size) {
  NamedTensors weights;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "rope_freqs.weight" || is_tied_head(name, file, name_of_model)) continue;
    const std::string known = name_in_zoo(name, name_of_model);
    const int32_t state = known.empty() ? -1 : model.find_state(known);
    const DType dtype = state < 0 ? DType::f32 : model.state(state).type.dtype;
    Tensor weight =
        with_context([&] { return gguf_tensor(*tensor.type, tensor.shape, file.owner, tensor.bytes, dtype); },
                     [&] { return "in tensor '" + name + "'"; });
    if (has_rows_in_pairs(known, name_of_model) && weight.type().shape.rank() == 2)
      weight = without_pairs(weight, head_size);
    weights.emplace(known.empty() ? name : known, std::move(weight));
  }
  return weights;
}

void attach_tokenizer(Model& model, const Gguf& file) {
  for (const auto& [name, text] : {std::pair{"tokenizer.json", tokenizer_json(file)},
                                   std::pair{"tokenizer_config.json", tokenizer_config_json(file)}})
    if (!text.empty()) attach_file(model, name, text);
}

const int64_t* integer(const Gguf& file, const char* name) {
  const auto at = file.metadata.find(name);
  return at == file.metadata.end() ? nullptr : std::get_if<int64_t>(&at->second);
}

// A config.json as the model would have come with one: what ends a text is looked up there, and export begins with it.
std::string config_of(const Gguf& file, const Model& model, const std::string& positions) {
  const ZooSettings zoo = hugging_face::zoo_settings(model);
  nlohmann::json config = hugging_face::config_for_export(model, zoo, *parse_dtype(zoo.settings.at("dtype")));
  if (!positions.empty()) config["max_position_embeddings"] = std::stoll(positions);
  if (const int64_t* id = integer(file, "tokenizer.ggml.bos_token_id")) config["bos_token_id"] = *id;
  const int64_t *eos = integer(file, "tokenizer.ggml.eos_token_id"),
                *eot = integer(file, "tokenizer.ggml.eot_token_id");
  if (eos && eot && *eos != *eot)
    config["eos_token_id"] = {*eos, *eot};
  else if (eos || eot)
    config["eos_token_id"] = eos ? *eos : *eot;
  return config.dump();
}

// llama.cpp cuts large files, and each part has some of the tensors.
void check_is_whole(const Gguf& file) {
  if (const int64_t* parts = integer(file, "split.count"); parts && *parts > 1)
    fail(
        "it is one of {} parts of a model: join them first, as with `llama-gguf-split --merge FIRST.gguf "
        "WHOLE.gguf`",
        *parts);
}

constexpr std::string_view kRemedy =
    "the file's metadata and its tensors must be of one model: get or convert it again, or say with settings "
    "what the metadata says wrong (genesis-build --set NAME=VALUE)";

std::unique_ptr<Model> make(const Gguf& file, const Settings& changes) {
  check_is_whole(file);
  ZooSettings zoo = read_config(file);
  check_types(file);
  const auto head = zoo.settings.find("head_dim"), positions = zoo.settings.find("max_position_embeddings");
  const int64_t head_size = head == zoo.settings.end() ? 0 : std::stoll(head->second);
  const std::string longest = positions == zoo.settings.end() ? "" : positions->second;
  hugging_face::limit_cache(zoo.settings, changes);
  for (const auto& [key, value] : changes) zoo.settings[key] = value;
  std::unique_ptr<Model> model = with_context([&] { return make_undrawn_model(zoo.model, zoo.settings); },
                                              [] { return "in the model that the metadata say"; });
  load_whole_state_dict(*model, weights_of(file, *model, zoo.model, head_size), kRemedy);
  model->metadata["config.json"] = config_of(file, *model, longest);
  attach_tokenizer(*model, file);
  return model;
}

}  // namespace

bool is_gguf_file(const std::filesystem::path& path) {
  if (file_ending(path) == ".gguf") return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string first(4, '\0');
  return std::ifstream(path, std::ios::binary).read(first.data(), std::ssize(first)) && first == "GGUF";
}

std::unique_ptr<Model> import_model(const std::filesystem::path& path, const Settings& changes,
                                    MappedFiles* files) {
  const Gguf file = read_gguf(path);
  if (files) files->push_back(file.file);
  return with_context([&] { return make(file, changes); }, [&] { return path.string(); });
}

}  // namespace genesis::models::gguf
