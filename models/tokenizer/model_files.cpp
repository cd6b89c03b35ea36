#include "models/tokenizer/model_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/attached_files.h"

namespace genesis::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uintmax_t kMaxFile = 64 << 20;  // bytes
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kNames[] = {kTokenizer, kConfig, "chat_template.jinja", "special_tokens_map.json",
                                  "generation_config.json"};

void attach(Model& model, const fs::path& file, const std::string& name) {
  std::error_code error;
  if (const uintmax_t bytes = fs::file_size(file, error); !error && bytes > kMaxFile)
    fail("{}: {} bytes are more than the limit of {}", file.string(), bytes, kMaxFile);
  attach_file(model, name, read_whole_file(file));
}

// Null where the file is missing or no JSON.
json parsed(const Model& model, const char* name) {
  const auto text = attached_file(model, name);
  const json file = text ? json::parse(*text, nullptr, false) : json();
  return file.is_discarded() ? json() : file;
}

json member(const json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object[name] : json();
}

std::vector<int64_t> ids_in(const json& value) {
  std::vector<int64_t> ids;
  for (const json& id : value.is_array() ? value : json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  return ids;
}

// A token is its text, or an object with that as "content".
std::optional<int64_t> token_named(const json& value, const Tokenizer& tokenizer) {
  const json text = value.is_object() ? member(value, "content") : value;
  return text.is_string() ? tokenizer.token_to_id(text.get<std::string>()) : std::nullopt;
}

}  // namespace

void attach_tokenizer_files(Model& model, const fs::path& folder) {
  if (!fs::is_directory(folder)) return attach(model, folder, kTokenizer);
  for (const char* name : kNames)
    if (fs::exists(folder / name)) attach(model, folder / name, name);
}

std::optional<Tokenizer> tokenizer_of(const Model& model) {
  const auto file = attached_file(model, kTokenizer);
  if (!file) return std::nullopt;
  return with_context([&] { return Tokenizer::parse(*file); },
                      [] { return "in the tokenizer.json that the model brings"; });
}

std::optional<int64_t> end_of_text_token(const Model& model, const Tokenizer& tokenizer) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"})
    if (const auto id = tokenizer.token_to_id(name)) return id;
  return token_named(member(parsed(model, kConfig), "eos_token"), tokenizer);
}

std::vector<int64_t> end_tokens(const Model& model, const Tokenizer& tokenizer) {
  std::vector<int64_t> ends = ids_in(member(parsed(model, "generation_config.json"), "eos_token_id"));
  if (const auto config = model.metadata.find("config.json"); config != model.metadata.end())
    for (const int64_t id : ids_in(member(json::parse(config->second, nullptr, false), "eos_token_id")))
      if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  const auto named = token_named(member(parsed(model, kConfig), "eos_token"), tokenizer);
  if (ends.empty() && named) ends.push_back(*named);
  return ends;
}

}  // namespace genesis::text
