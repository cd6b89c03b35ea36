#include "models/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <unordered_map>

#include "models/tokenizer/json_members.h"
#include "models/tokenizer/model_section.h"
#include "models/tokenizer/pipeline_file.h"
#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 64 << 20;  // bytes; parsed JSON takes about twenty times as much memory
constexpr size_t kMaxAround = 1024;    // tokens on one side of every text

class Parser {
 public:
  TokenizerFile run(const json& root) {
    if (!root.is_object() || !member(root, "model").is_object())
      fail("it has no 'model': it is not a tokenizer.json");
    file_.model.data = model_options(member(root, "model"), refusals_);
    file_.normalizer = normalizer_steps(member(root, "normalizer"), refusals_);
    file_.pre_tokenizer = pre_tokenizer_steps(member(root, "pre_tokenizer"), refusals_);
    post_processor(member(root, "post_processor"), "post_processor");
    file_.decoder = decoder_steps(member(root, "decoder"), refusals_);
    file_.has_decoder = !member(root, "decoder").is_null();
    refusals_.check();
    read_tokens(member(root, "model"), file_.model);
    added_tokens(member(root, "added_tokens"));
    return std::move(file_);
  }

 private:
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
  return Parser().run(parse_json_text(text, "it", {.bytes = kMaxFile}));
}

}  // namespace genesis::text
