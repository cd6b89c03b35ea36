#include "models/tokenizer/model_files.h"

#include <nlohmann/json.hpp>

#include "models/tokenizer/vocabulary_files.h"
#include "schema/core/error.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

namespace genesis::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMaxBytes = 64 << 20;
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kNames[] = {kTokenizer, kConfig, "chat_template.jinja", "special_tokens_map.json",
                                  "generation_config.json"};

// Returns a member of a JSON object; null if it does not exist or the text is not one, which readers of its other members report.
json member_in(std::string_view text, const char* name) {
  const json object = try_parse_json_text(text);
  return object.is_object() ? object.value(name, json()) : json();
}

json member_of_file(const Model& model, const char* file, const char* name) {
  const auto text = attached_file(model, file);
  return text ? member_in(*text, name) : json();
}

std::vector<int64_t> ids_in(const json& value) {
  std::vector<int64_t> ids;
  for (const json& id : value.is_array() ? value : json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  return ids;
}

// Returns the id of a token that is given as its text, or as an object with the text as "content".
std::optional<int64_t> token_named(const json& value, const Tokenizer& tokenizer) {
  const json text = value.is_object() ? value.value("content", json()) : value;
  return text.is_string() ? tokenizer.token_to_id(text.get<std::string>()) : std::nullopt;
}

// Other tokenizers than SentencePiece have files of this name, too; a folder with one of them is useful without a tokenizer.
std::string made_of_pieces(const fs::path& folder) {
  try {
    return tokenizer_json_of_pieces(folder);
  } catch (const Error& error) {
    log_warning("{}; text will need another tokenizer (--tokenizer)", error.message());
    return "";
  }
}

}  // namespace

void attach_tokenizer_files(Model& model, const fs::path& folder) {
  if (!fs::is_directory(folder)) return attach_file(model, kTokenizer, read_whole_file(folder, kMaxBytes));
  for (const char* name : kNames)
    if (fs::exists(folder / name)) attach_file(model, name, read_regular_file(folder / name, kMaxBytes));
  if (attached_file(model, kTokenizer)) return;
  std::string made = tokenizer_json_of_vocabulary(folder);
  if (made.empty()) made = made_of_pieces(folder);
  if (!made.empty()) attach_file(model, kTokenizer, made);
}

std::optional<Tokenizer> tokenizer_of(const Model& model) {
  const auto file = attached_file(model, kTokenizer);
  if (!file) return std::nullopt;
  return Tokenizer::parse(*file, "the tokenizer.json that the model brings");
}

std::optional<int64_t> end_of_text_token(const Model& model, const Tokenizer& tokenizer) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"})
    if (const auto id = tokenizer.token_to_id(name)) return id;
  return token_named(member_of_file(model, kConfig, "eos_token"), tokenizer);
}

std::vector<int64_t> end_tokens(const Model& model, const Tokenizer& tokenizer) {
  if (const auto ends = ids_in(member_of_file(model, "generation_config.json", "eos_token_id"));
      !ends.empty())
    return ends;
  if (const auto config = model.metadata.find("config.json"); config != model.metadata.end())
    if (const auto ends = ids_in(member_in(config->second, "eos_token_id")); !ends.empty()) return ends;
  std::vector<int64_t> ends;
  if (const auto named = token_named(member_of_file(model, kConfig, "eos_token"), tokenizer))
    ends.push_back(*named);
  return ends;
}

}  // namespace genesis::text
