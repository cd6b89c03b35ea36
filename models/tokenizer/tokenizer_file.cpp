#include "models/tokenizer/tokenizer_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/tokenizer/patterns.h"
#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 64 << 20;  // bytes; a tree of JSON takes some twenty times its text
constexpr uint32_t kMaxId = (1 << 22) - 1;
constexpr size_t kMaxToken = 64 << 10;  // bytes

// A member of an object; null where it is missing.
const json& member(const json& object, const char* name) {
  static const json kNull;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNull : *found;
}

std::string text_of(const json& value, const std::string& what) {
  if (!value.is_string()) fail("'{}' is not a text", what);
  auto text = value.get<std::string>();
  if (text.size() > kMaxToken) fail("'{}' has {} bytes, the limit is {}", what, text.size(), kMaxToken);
  return text;
}

bool bool_of(const json& value, bool otherwise, const std::string& what) {
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail("'{}' is neither true nor false", what);
  return value.get<bool>();
}

uint32_t id_of(const json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxId)
    fail("the id of '{}' is not a number from 0 to {}", what, kMaxId);
  return value.get<uint32_t>();
}

const json& list_of(const json& value, const std::string& what) {
  if (!value.is_array()) fail("'{}' is not a list", what);
  return value;
}

class Parser {
 public:
  TokenizerFile run(const json& root) {
    if (!root.is_object() || !member(root, "model").is_object())
      fail("it has no 'model': it is not a tokenizer.json");
    check_model(member(root, "model"));
    normalizer(member(root, "normalizer"));
    pre_tokenizer(member(root, "pre_tokenizer"));
    post_processor(member(root, "post_processor"));
    if (const std::string type = type_of(member(root, "decoder")); type != "ByteLevel")
      unsupported("decoder " + type);
    if (!unsupported_.empty())
      fail(
          "it asks for what is not supported: {}; supported is byte-level BPE as GPT-2, Llama 3 and Qwen "
          "have it",
          fmt::join(unsupported_, ", "));
    vocabulary(member(member(root, "model"), "vocab"));
    merges(member(member(root, "model"), "merges"));
    added_tokens(member(root, "added_tokens"));
    return std::move(file_);
  }

 private:
  void unsupported(const std::string& what) { unsupported_.push_back(what); }

  // A name of the file for messages; "null" where there is nothing.
  static std::string type_of(const json& part) {
    if (part.is_null()) return "null";
    return text_of(member(part, "type"), "type").substr(0, 40);
  }

  void check_model(const json& model) {
    if (!member(model, "type").is_null() && type_of(model) != "BPE")
      return unsupported("model " + type_of(model));
    if (bool_of(member(model, "byte_fallback"), false, "byte_fallback")) unsupported("model.byte_fallback");
    for (const char* name : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
      if (const json& value = member(model, name); !value.is_null() && !text_of(value, name).empty())
        unsupported(fmt::format("model.{}", name));
    if (const json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0)
      unsupported("model.dropout");
    file_.whole_words_first = bool_of(member(model, "ignore_merges"), false, "ignore_merges");
  }

  void normalizer(const json& part) {
    const std::string type = type_of(part);
    if (type == "NFC") {
      file_.normalizes = true;
    } else if (type == "Sequence") {
      for (const json& one : list_of(member(part, "normalizers"), "normalizers")) normalizer_in_sequence(one);
    } else if (type != "null") {
      unsupported("normalizer " + type);
    }
  }

  // Sequences hold no sequences here, so that no file makes the parser descend without end.
  void normalizer_in_sequence(const json& part) {
    if (const std::string type = type_of(part); type == "NFC")
      file_.normalizes = true;
    else
      unsupported("normalizer " + type + " in a Sequence");
  }

  void pre_tokenizer(const json& part) {
    const std::string type = type_of(part);
    if (type == "ByteLevel") return byte_level(part);
    if (type != "Sequence") return unsupported("pre_tokenizer " + type);
    const json& parts = list_of(member(part, "pretokenizers"), "pretokenizers");
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string one = type_of(parts[i]);
      const bool is_last = i + 1 == parts.size();
      if (one == "Split" && !is_last)
        split(parts[i]);
      else if (one == "Digits" && !is_last)
        digits(parts[i]);
      else if (one == "ByteLevel" && is_last)
        byte_level(parts[i]);
      else
        unsupported(fmt::format("pre_tokenizer {} as part {} of {} in a Sequence", one, i + 1, parts.size()));
    }
    if (parts.empty()) unsupported("pre_tokenizer Sequence of nothing");
  }

  void byte_level(const json& part) {
    if (bool_of(member(part, "add_prefix_space"), false, "add_prefix_space"))
      file_.prefix_space = file_.splits.size();
    if (bool_of(member(part, "use_regex"), true, "use_regex")) expression(std::string(kGpt2Pattern));
  }

  void split(const json& part) {
    if (text_of(member(part, "behavior"), "behavior") != "Isolated" ||
        bool_of(member(part, "invert"), false, "invert"))
      unsupported("pre_tokenizer Split that is not Isolated, or inverted");
    const json& pattern = member(member(part, "pattern"), "Regex");
    if (pattern.is_null()) return unsupported("pre_tokenizer Split by what is not a Regex");
    expression(text_of(pattern, "Regex"));
  }

  // Numbers as Rust has them here, with those of Unicode 17, which the expressions of `tokenizers` do not know.
  void digits(const json& part) {
    const std::string number = "[\\p{N}\U00011de0-\U00011de9\U00016ff4-\U00016ff6]";
    expression(bool_of(member(part, "individual_digits"), false, "individual_digits") ? number
                                                                                      : number + "+");
  }

  void expression(const std::string& text) {
    try {
      file_.splits.emplace_back(text);
    } catch (const Error& error) {
      unsupported(error.message());
    }
  }

  void post_processor(const json& part) {
    if (type_of(part) != "Sequence") return processor(part);
    for (const json& one : list_of(member(part, "processors"), "processors")) processor(one);
  }

  void processor(const json& part) {
    const std::string type = type_of(part);
    if (type == "TemplateProcessing") return around(part);
    if (type != "null" && type != "ByteLevel")
      unsupported("post_processor " + type);  // ByteLevel trims offsets, no ids
  }

  // A later template stands around an earlier one.
  void around(const json& part) {
    std::vector<int64_t> prefix, suffix;
    int texts = 0;
    for (const json& piece : list_of(member(part, "single"), "single")) {
      texts += member(member(piece, "Sequence"), "id") == "A";
      if (const json& token = member(piece, "SpecialToken"); !token.is_null())
        special_token(part, text_of(member(token, "id"), "SpecialToken"), texts == 0 ? prefix : suffix);
    }
    if (texts != 1) return unsupported("post_processor TemplateProcessing without one text");
    file_.prefix.insert(file_.prefix.begin(), prefix.begin(), prefix.end());
    file_.suffix.insert(file_.suffix.end(), suffix.begin(), suffix.end());
  }

  static void special_token(const json& part, const std::string& name, std::vector<int64_t>& ids) {
    const json& token = member(member(part, "special_tokens"), name.c_str());
    for (const json& id : list_of(member(token, "ids"), "ids")) ids.push_back(id_of(id, name));
  }

  void vocabulary(const json& tokens) {
    if (!tokens.is_object()) fail("'vocab' is not an object of ids");
    std::vector<bool> taken(kMaxId + 1);
    for (const auto& [token, value] : tokens.items()) {
      const uint32_t id = id_of(value, token);
      if (token.empty() || token.size() > kMaxToken)
        fail("a token of {} bytes, the limits are 1 and {}", token.size(), kMaxToken);
      if (taken[id]) fail("two tokens of 'vocab' have the id {}", id);
      taken[id] = true;
      file_.vocabulary.emplace(token, id);
    }
  }

  uint32_t known(const std::string& token) const {
    const auto found = file_.vocabulary.find(token);
    if (found == file_.vocabulary.end()) fail("'{}' in 'merges' is not in 'vocab'", token);
    return found->second;
  }

  void merges(const json& list) {
    for (const json& row : list_of(list, "merges")) {
      const bool is_pair = row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string();
      if (row.is_string() && row.get_ref<const std::string&>().starts_with("#version")) continue;
      const std::string text = row.is_string() ? row.get<std::string>() : "";
      const size_t space = text.find(' ');
      if (!is_pair && (space == std::string::npos || text.find(' ', space + 1) != std::string::npos))
        fail("row {} of 'merges' is neither \"a b\" nor [\"a\", \"b\"]", &row - &list[0]);
      const std::string left = is_pair ? row[0].get<std::string>() : text.substr(0, space),
                        right = is_pair ? row[1].get<std::string>() : text.substr(space + 1);
      file_.merges.push_back({known(left), known(right), known(left + right)});
    }
  }

  // As `tokenizers` does: a token of the vocabulary keeps its id, others follow the vocabulary.
  void added_tokens(const json& list) {
    if (list.is_null()) return;
    auto next = static_cast<uint32_t>(file_.vocabulary.size());
    for (const json& row : list_of(list, "added_tokens")) {
      const std::string content = text_of(member(row, "content"), "content");
      if (content.empty()) fail("an added token is empty");
      const auto known = file_.vocabulary.find(content);
      const AddedToken token = {.id = known == file_.vocabulary.end() ? next++ : known->second,
                                .content = content,
                                .single_word = bool_of(member(row, "single_word"), false, "single_word"),
                                .lstrip = bool_of(member(row, "lstrip"), false, "lstrip"),
                                .rstrip = bool_of(member(row, "rstrip"), false, "rstrip"),
                                .normalized = bool_of(member(row, "normalized"), true, "normalized"),
                                .special = bool_of(member(row, "special"), false, "special")};
      if (const uint32_t id = id_of(member(row, "id"), content); id != token.id)
        fail("the added token '{}' has the id {}, by its place it is {}", content, id, token.id);
      file_.added.push_back(token);
    }
  }

  TokenizerFile file_;
  std::vector<std::string> unsupported_;
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text) {
  if (text.size() > kMaxFile) fail("it has {} bytes, the limit is {}", text.size(), kMaxFile);
  const json root = try_parse_json_text(text);
  if (root.is_discarded()) fail("it is not valid JSON");
  return Parser().run(root);
}

}  // namespace genesis::text
