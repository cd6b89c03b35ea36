#include "models/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <unordered_map>

#include "models/tokenizer/json_members.h"
#include "models/tokenizer/pipeline_file.h"
#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 64 << 20;  // bytes; parsed JSON takes about twenty times as much memory
constexpr uint32_t kMaxId = (1 << 22) - 1;
constexpr size_t kMaxAround = 1024;  // tokens on one side of every text

uint32_t id_of(const json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxId)
    fail("the id of '{}' is not a number from 0 to {}", what, kMaxId);
  return value.get<uint32_t>();
}

class Parser {
 public:
  TokenizerFile run(const json& root) {
    if (!root.is_object() || !member(root, "model").is_object())
      fail("it has no 'model': it is not a tokenizer.json");
    check_model(member(root, "model"));
    file_.normalizer = normalizer_steps(member(root, "normalizer"), refusals_);
    file_.pre_tokenizer = pre_tokenizer_steps(member(root, "pre_tokenizer"), refusals_);
    post_processor(member(root, "post_processor"), "post_processor");
    file_.decoder = decoder_steps(member(root, "decoder"), refusals_);
    file_.has_decoder = !member(root, "decoder").is_null();
    refusals_.check();
    vocabulary(member(member(root, "model"), "vocab"));
    merges(member(member(root, "model"), "merges"));
    added_tokens(member(root, "added_tokens"));
    return std::move(file_);
  }

 private:
  void check_model(const json& model) {
    if (!member(model, "type").is_null() && type_of(model, "model") != "BPE")
      return refusals_.add("model " + type_of(model, "model"));
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const json& value = member(model, name); !value.is_null() && !text_of(value, name).empty())
        refusals_.add(fmt::format("model.{}", name));
    if (const json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0)
      refusals_.add("model.dropout");
    const auto flag = [&](const char* name) {
      return bool_of(member(model, name), false, std::string("model.") + name);
    };
    file_.model.whole_words_first = flag("ignore_merges");
    file_.model.byte_fallback = flag("byte_fallback");
    file_.model.fuse_unk = flag("fuse_unk");
    if (const json& token = member(model, "unk_token"); !token.is_null())
      file_.model.unk_token = text_of(token, "model.unk_token");
  }

  void post_processor(const json& part, const std::string& where) {
    if (type_of(part, where) != "Sequence") return processor(part, where);
    const json& parts = list_of(member(part, "processors"), where + ".processors");
    for (size_t i = 0; i < parts.size(); ++i)
      post_processor(parts[i], fmt::format("{}.processors[{}]", where, i));
  }

  void processor(const json& part, const std::string& where) {
    const std::string type = type_of(part, where);
    const bool is_template = type == "TemplateProcessing",
               is_pair = type == "RobertaProcessing" || type == "BertProcessing";
    if (has_pieces_ && (is_template || is_pair))
      return refusals_.add(where + " " + type + " behind a TemplateProcessing");
    if (is_template) return around(part, where);
    if (is_pair) return put_around({token_in(part, where, "cls")}, {token_in(part, where, "sep")}, where);
    if (type != "null" && type != "ByteLevel")
      refusals_.add(where + " " + type);  // ByteLevel changes offsets only, not ids
  }

  // Reads a token such as "sep": ["</s>", 2].
  static int64_t token_in(const json& part, const std::string& where, const char* name) {
    const json& token = list_of(member(part, name), where + "." + name);
    if (token.size() != 2) fail("'{}.{}' is not a token and its id", where, name);
    return id_of(token[1], where + "." + name);
  }

  void around(const json& part, const std::string& where) {
    std::vector<int64_t> prefix, suffix;
    int texts = 0;
    for (const json& piece : list_of(member(part, "single"), where + ".single")) {
      if (const json& sequence = member(piece, "Sequence"); !sequence.is_null())
        texts += member(sequence, "id") == "A" ? 1 : 2;
      if (const json& token = member(piece, "SpecialToken"); !token.is_null())
        special_token(part, text_of(member(token, "id"), where + ".single"), texts == 0 ? prefix : suffix);
    }
    if (texts != 1) return refusals_.add(where + " TemplateProcessing whose 'single' is not one text A");
    put_around(prefix, suffix, where);
    has_pieces_ = !prefix.empty() || !suffix.empty();
  }

  static void special_token(const json& part, const std::string& name, std::vector<int64_t>& ids) {
    const json& token = member(member(part, "special_tokens"), name.c_str());
    for (const json& id : list_of(member(token, "ids"), "special_tokens." + name + ".ids")) {
      if (ids.size() == kMaxAround) fail_around("post_processor");
      ids.push_back(id_of(id, name));
    }
  }

  [[noreturn]] static void fail_around(const std::string& where) {
    fail("'{}' puts more than {} tokens on one side of every text: give those as a part of the texts", where,
         kMaxAround);
  }

  // Adds tokens around every text. Those of a later processor are outside of those of earlier ones.
  void put_around(const std::vector<int64_t>& prefix, const std::vector<int64_t>& suffix,
                  const std::string& where) {
    file_.prefix.insert(file_.prefix.begin(), prefix.begin(), prefix.end());
    file_.suffix.insert(file_.suffix.end(), suffix.begin(), suffix.end());
    if (std::max(file_.prefix.size(), file_.suffix.size()) > kMaxAround) fail_around(where);
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
      file_.model.vocabulary.emplace(token, id);
    }
  }

  uint32_t known(const std::string& token) const {
    const auto found = file_.model.vocabulary.find(token);
    if (found == file_.model.vocabulary.end()) fail("'{}' in 'merges' is not in 'vocab'", token);
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
      file_.model.merges.push_back({known(left), known(right), known(left + right)});
    }
  }

  // Follows `tokenizers`: a token of the vocabulary keeps its id, others get the next ids behind the vocabulary. A repeated
  // content can only make the first token special.
  void added_tokens(const json& list) {
    if (list.is_null()) return;
    const size_t size = file_.model.vocabulary.size();
    size_t next = size;
    std::unordered_map<std::string, size_t> places;
    for (const json& row : list_of(list, "added_tokens")) {
      AddedToken token = added_token(row);
      if (token.content.empty()) continue;
      if (const auto [place, is_new] = places.emplace(token.content, file_.added.size()); !is_new) {
        file_.added[place->second].special |= token.special;
        continue;
      }
      const auto known = file_.model.vocabulary.find(token.content);
      const size_t id = known == file_.model.vocabulary.end() ? next : known->second;
      if (id != token.id)
        fail("the added token '{}' has the id {}, by its place it is {}", token.content, token.id, id);
      next = std::max(next, id + 1);
      file_.added.push_back(std::move(token));
    }
  }

  static AddedToken added_token(const json& row) {
    const std::string content = text_of(member(row, "content"), "content");
    return {.id = id_of(member(row, "id"), content),
            .content = content,
            .single_word = bool_of(member(row, "single_word"), false, "single_word"),
            .lstrip = bool_of(member(row, "lstrip"), false, "lstrip"),
            .rstrip = bool_of(member(row, "rstrip"), false, "rstrip"),
            .normalized = bool_of(member(row, "normalized"), true, "normalized"),
            .special = bool_of(member(row, "special"), false, "special")};
  }

  TokenizerFile file_;
  Refusals refusals_;
  bool has_pieces_ =
      false;  // `tokenizers` treats each token that a template has added as a text of its own from there on
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text) {
  if (text.size() > kMaxFile) fail("it has {} bytes, the limit is {}", text.size(), kMaxFile);
  const json root = parse_shallow_json(text);
  if (root.is_discarded()) fail("it is not valid JSON");
  return Parser().run(root);
}

}  // namespace genesis::text
