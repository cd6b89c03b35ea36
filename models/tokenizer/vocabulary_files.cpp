#include "models/tokenizer/vocabulary_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/families.h"
#include "models/tokenizer/patterns.h"
#include "models/tokenizer/sentence_piece_file.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

// Returns an empty object if the file does not exist.
json object_in(const fs::path& file) { return fs::exists(file) ? read_json_object(file) : json::object(); }

// Returns true if `name` is the family's model_type, or the class of its tokenizer.
bool is_named(const models::Family& family, const std::string& name) {
  const auto& classes = family.vocabulary.classes;
  return (family.hugging_face && family.hugging_face->model_type == name) ||
         std::ranges::find(classes, name) != classes.end();
}

// Returns the tokenizer of the folder's family; its pattern is empty if the family is not known.
models::VocabularyForm form_of(const fs::path& folder) {
  for (const auto& [file, key] :
       {std::pair("tokenizer_config.json", "tokenizer_class"), std::pair("config.json", "model_type")}) {
    const json config = object_in(folder / file);
    const auto at = config.find(key);
    if (at == config.end() || !at->is_string()) continue;
    for (const models::Family& family : models::families())
      if (is_named(family, at->get<std::string>())) return family.vocabulary;
    return {};
  }
  return {};
}

ordered_json merges_in(const fs::path& file) {
  ordered_json merges = ordered_json::array();
  std::istringstream lines(read_regular_file(file, kJsonFile.bytes));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      fail("{}: '{}' is not two tokens with a space between them", file.string(), line.substr(0, 60));
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

// Adds the tokens that settings name by their text, if they are in the vocabulary.
void add_named(const json& settings, const json& vocabulary, std::map<int64_t, ordered_json>& added) {
  json names = settings.value("additional_special_tokens", json());
  if (!names.is_array()) names = json::array();
  names.push_back("<|endoftext|>");
  for (const char* role : {"bos_token", "eos_token", "unk_token", "pad_token"})
    names.push_back(settings.value(role, json()));
  for (const json& name : names) {
    const json text = name.is_object() ? name.value("content", json()) : name;
    const auto at = text.is_string() ? vocabulary.find(text.get<std::string>()) : vocabulary.end();
    if (at == vocabulary.end() || !at->is_number_integer()) continue;
    const auto id = at->get<int64_t>();
    added[id] = added_token_json(id, text.get<std::string>(), true);
  }
}

// Returns the added tokens sorted by id, each once. tokenizer_config.json takes precedence over the other files.
ordered_json added_tokens(const fs::path& folder, const json& vocabulary) {
  std::map<int64_t, ordered_json> added;
  add_named(object_in(folder / "special_tokens_map.json"), vocabulary, added);
  add_named(object_in(folder / "tokenizer_config.json"), vocabulary, added);
  const json others = object_in(folder / "added_tokens.json");
  for (const auto& [content, id] : others.items())
    if (id.is_number_integer()) added[id.get<int64_t>()] = added_token_json(id.get<int64_t>(), content, true);
  const json config = object_in(folder / "tokenizer_config.json");
  const json decoder = config.value("added_tokens_decoder", json::object());
  for (const auto& [id, token] : decoder.items()) {
    const json content = token.is_object() ? token.value("content", json()) : json();
    if (!content.is_string() || id.empty() || id.size() > 9 ||
        id.find_first_not_of("0123456789") != std::string::npos)
      fail("{}: 'added_tokens_decoder' has '{}', which is no token by its id",
           (folder / "tokenizer_config.json").string(), id.substr(0, 60));
    ordered_json row = added_token_json(std::stoll(id), content.get<std::string>(), true);
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized", "special"})
      if (const auto at = token.find(name); at != token.end() && at->is_boolean()) row[name] = *at;
    added[std::stoll(id)] = std::move(row);
  }
  ordered_json list = ordered_json::array();
  for (auto& [id, row] : added) list.push_back(std::move(row));
  return list;
}

// Returns a token of tokenizer_config.json, else the default of the tokenizer's class. In folders whose tokenizer_config.json
// does not list the added tokens yet, special_tokens_map.json takes precedence.
json token_of(const char* role, const fs::path& folder, const json& of_class) {
  json settings = object_in(folder / "tokenizer_config.json");
  if (!settings.contains("added_tokens_decoder"))
    settings.update(object_in(folder / "special_tokens_map.json"));
  const json token = settings.value(role, of_class);
  return token.is_object() ? token.value("content", json()) : token;
}

bool is_set(const json& settings, const char* name) { return settings.value(name, json()) == true; }

// Returns the id of an added token or of one in the vocabulary; null if there is none.
json id_of(const json& text, const json& vocabulary, const ordered_json& added) {
  for (const ordered_json& row : added)
    if (row["content"] == text) return row["id"];
  const auto at = text.is_string() ? vocabulary.find(text.get<std::string>()) : vocabulary.end();
  return at == vocabulary.end() ? json() : *at;
}

// Returns the post-processor that add_bos_token and add_eos_token ask for. A token without an id is left out, as in transformers.
ordered_json post_processor(const fs::path& folder, const std::string& first_token, const json& vocabulary,
                            const ordered_json& added) {
  const json settings = object_in(folder / "tokenizer_config.json");
  ordered_json single = ordered_json::array(), tokens = ordered_json::object();
  const auto add = [&](const char* flag, const char* role, const json& of_class) {
    const json text = token_of(role, folder, of_class), id = id_of(text, vocabulary, added);
    if (!is_set(settings, flag) || id.is_null()) return;
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    tokens[text.get<std::string>()] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  add("add_bos_token", "bos_token", first_token.empty() ? json() : json(first_token));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("add_eos_token", "eos_token", "<|endoftext|>");
  if (tokens.empty()) return byte_level_json(false);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", ordered_json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                        {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
          {"special_tokens", std::move(tokens)}};
}

// A class of transformers that keeps the ids of SentencePiece, and the tokens that it puts around a text by default.
struct PieceClass {
  const char* name;
  bool adds_begin, adds_end;
};
constexpr PieceClass kPieceClasses[] = {{"LlamaTokenizer", true, false},
                                        {"CodeLlamaTokenizer", true, false},
                                        {"GemmaTokenizer", true, false},
                                        {"T5Tokenizer", false, true}};

// Returns the class of the folder's tokenizer; that of Llama if the folder does not say one; null for another one.
const PieceClass* piece_class_of(const fs::path& folder) {
  const json name = object_in(folder / "tokenizer_config.json").value("tokenizer_class", json());
  if (!name.is_string()) return kPieceClasses;
  for (const PieceClass& known : kPieceClasses)
    if (name == known.name || name == std::string(known.name) + "Fast") return &known;
  return nullptr;
}

// Returns the added tokens of the file and of the folder, which takes precedence, but for user-defined pieces.
ordered_json all_added(const fs::path& folder, const std::vector<SentencePiece>& pieces,
                       const ordered_json& of_file) {
  json vocabulary = json::object();
  for (size_t id = 0; id < pieces.size(); ++id) vocabulary.emplace(pieces[id].text, id);
  const auto is_user_defined = [&](int64_t id) {
    return id >= 0 && id < std::ssize(pieces) &&
           pieces[static_cast<size_t>(id)].type == PieceType::kUserDefined;
  };
  std::map<int64_t, ordered_json> rows;
  for (const ordered_json& row : of_file) rows[row["id"]] = row;
  for (const ordered_json& row : added_tokens(folder, vocabulary))
    if (!is_user_defined(row["id"])) rows[row["id"]] = row;
  ordered_json list = ordered_json::array();
  for (auto& [id, row] : rows) list.push_back(std::move(row));
  return list;
}

std::string json_of_piece_file(const fs::path& folder, std::string_view bytes, const PieceClass& otherwise) {
  SentencePieceFile file = read_sentence_piece_file(std::as_bytes(std::span(bytes)));
  const json config = object_in(folder / "tokenizer_config.json");
  const auto adds = [&](const char* flag, bool by_class) {
    const json value = config.value(flag, json());
    return value.is_boolean() ? value.get<bool>() : by_class;
  };
  if (file.begin_id >= 0 && adds("add_bos_token", otherwise.adds_begin)) file.model.prefix = {file.begin_id};
  if (file.end_id >= 0 && adds("add_eos_token", otherwise.adds_end)) file.model.suffix = {file.end_id};
  file.model.adds_space = adds("add_prefix_space", file.model.adds_space);
  ordered_json root = ordered_json::parse(tokenizer_json_of(file.model));
  root["added_tokens"] = all_added(folder, file.model.pieces, root["added_tokens"]);
  return root.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string tokenizer_json_of_vocabulary(const fs::path& folder) {
  const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (!fs::exists(vocabulary) || !fs::exists(merges)) return "";
  const models::VocabularyForm form = form_of(folder);
  if (form.pattern.empty()) return "";
  Pattern pattern = pattern_named(form.pattern);
  pattern.steps.back().add_prefix_space =
      is_set(object_in(folder / "tokenizer_config.json"), "add_prefix_space");
  const json tokens = object_in(vocabulary);
  const ordered_json added = added_tokens(folder, tokens);
  ordered_json root = pipeline_json(added, pattern, post_processor(folder, form.first_token, tokens, added));
  root["model"] = bpe_json(false);
  root["model"]["vocab"] = tokens;
  root["model"]["merges"] = merges_in(merges);
  return root.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string tokenizer_json_of_pieces(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.model";
  const PieceClass* otherwise = piece_class_of(folder);
  if (!otherwise || !fs::exists(file)) return "";
  const std::string bytes = read_regular_file(file, kJsonFile.bytes);
  return with_context([&] { return json_of_piece_file(folder, bytes, *otherwise); },
                      [&] { return file.string(); });
}

}  // namespace genesis::text
