#include "models/formats/gguf/tokenizer.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "models/families.h"
#include "models/formats/gguf/piece_tokenizer.h"
#include "models/formats/gguf/pre_tokenizers.h"
#include "models/tokenizer/patterns.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"
#include "schema/messages/log.h"

namespace genesis::models::gguf {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// Token types of llama.cpp.
constexpr int64_t kControl = 3, kUserDefined = 4, kUnused = 5;

template <class T>
const T* find(const Gguf& gguf, const char* name) {
  const auto at = gguf.metadata.find(name);
  if (at == gguf.metadata.end()) return nullptr;
  const T* value = std::get_if<T>(&at->second);
  if (!value) fail("its metadata '{}' are of another kind than expected", name);
  return value;
}

template <class T>
const T& get(const Gguf& gguf, const char* name) {
  const T* value = find<T>(gguf, name);
  if (!value) fail("its tokenizer has no '{}'", name);
  return *value;
}

// Returns the pre-tokenizer. In files older than the key tokenizer.ggml.pre, the architecture determines it.
const PreTokenizer& pre_tokenizer_of(const Gguf& gguf) {
  const auto* pre = find<std::string>(gguf, "tokenizer.ggml.pre");
  if (!pre) {
    const auto* architecture = find<std::string>(gguf, "general.architecture");
    const Family* family = architecture ? family_of_gguf(*architecture) : nullptr;
    if (!family || family->gguf->pre_tokenizer.empty()) return *find_pre_tokenizer("gpt-2");
    log_warning(
        "its metadata do not say how its tokenizer cuts words (tokenizer.ggml.pre): it is taken to be {}, as "
        "in {} "
        "models",
        family->gguf->pre_tokenizer, family->name);
    return *find_pre_tokenizer(family->gguf->pre_tokenizer);
  }
  const PreTokenizer* known = find_pre_tokenizer(*pre);
  if (!known)
    fail("its tokenizer cuts words as '{}' does (tokenizer.ggml.pre), which is not known; known are {}",
         pre->substr(0, 60), fmt::join(pre_tokenizer_names(), ", "));
  return *known;
}

// The tokens in the order of their ids. Checks that they are UTF-8, because they become keys of a JSON object.
class Tokens {
 public:
  explicit Tokens(const Gguf& gguf) : texts_(get<Texts>(gguf, "tokenizer.ggml.tokens")) {
    if (const auto* types = find<std::vector<int64_t>>(gguf, "tokenizer.ggml.token_type")) types_ = *types;
    if (!types_.empty() && types_.size() != texts_.size())
      fail("its tokenizer has {} tokens and types of {}", texts_.size(), types_.size());
    for (const std::string& text : texts_)
      if (!utf8::is_valid(text)) fail("a token of its tokenizer is not valid UTF-8");
  }
  size_t count() const { return texts_.size(); }
  const std::string& text(size_t id) const { return texts_[id]; }
  int64_t type(size_t id) const { return types_.empty() ? 1 : types_[id]; }
  bool is_added(size_t id) const { return type(id) == kControl || type(id) == kUserDefined; }

 private:
  const Texts& texts_;
  std::vector<int64_t> types_;
};

json added_tokens(const Tokens& tokens) {
  json added = json::array();
  for (size_t id = 0; id < tokens.count(); ++id)
    if (tokens.is_added(id))
      added.emplace_back(
          text::added_token_json(static_cast<int64_t>(id), tokens.text(id), tokens.type(id) == kControl));
  return added;
}

// Returns the vocabulary with the added tokens, which may have any ids: those absent from it would be numbered behind it.
json vocabulary(const Tokens& tokens) {
  json vocabulary = json::object();
  for (size_t id = 0; id < tokens.count(); ++id)
    if (tokens.type(id) != kUnused)
      if (!vocabulary.emplace(tokens.text(id), id).second)
        fail("its tokenizer has the token '{}' twice", tokens.text(id).substr(0, 60));
  return vocabulary;
}

json merges(const Gguf& gguf) {
  json merges = json::array();
  for (const std::string& merge : get<Texts>(gguf, "tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos || !utf8::is_valid(merge))
      fail("a merge of its tokenizer is not two tokens with a space between them");
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return merges;
}

// Returns the token whose id has this name; null if the file has no such id, or it is out of range.
const std::string* token_named(const Gguf& gguf, const Tokens& tokens, const char* name) {
  const int64_t* id = find<int64_t>(gguf, name);
  if (!id || *id < 0 || static_cast<uint64_t>(*id) >= tokens.count()) return nullptr;
  return &tokens.text(static_cast<size_t>(*id));
}

// Returns the post-processor that puts the BOS token in front and the EOS token behind. If the file does not say whether there is
// a BOS token, the pre-tokenizer decides, as in llama.cpp; there is an EOS token only if the file says so.
json post_processor(const Gguf& gguf, const Tokens& tokens, bool begins_text) {
  json pieces = json::array(), special = json::object();
  const auto add = [&](const char* which, bool otherwise) {
    const bool* said = find<bool>(gguf, fmt::format("tokenizer.ggml.add_{}_token", which).c_str());
    const std::string name = fmt::format("tokenizer.ggml.{}_token_id", which);
    const int64_t* id = find<int64_t>(gguf, name.c_str());
    if (!(said ? *said : otherwise) || !id) return;
    const std::string* text = token_named(gguf, tokens, name.c_str());
    if (!text) fail("its '{}' is {}, and it has {} tokens", name, *id, tokens.count());
    pieces.push_back({{"SpecialToken", {{"id", *text}, {"type_id", 0}}}});
    special[*text] = {{"id", *text}, {"ids", json::array({*id})}, {"tokens", json::array({*text})}};
  };
  add("bos", begins_text);
  pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("eos", false);
  if (special.empty()) return text::byte_level_json(false);
  return {{"type", "TemplateProcessing"}, {"single", pieces}, {"pair", pieces}, {"special_tokens", special}};
}

}  // namespace

std::string tokenizer_json(const Gguf& gguf) {
  const auto* kind = find<std::string>(gguf, "tokenizer.ggml.model");
  if (!kind) return "";
  if (is_piece_tokenizer(*kind)) return piece_tokenizer_json(gguf, *kind);
  if (*kind != "gpt2")
    fail("its tokenizer is a '{}' (tokenizer.ggml.model), expected gpt2, llama, t5 or bert",
         kind->substr(0, 60));
  const PreTokenizer& pre_tokenizer = pre_tokenizer_of(gguf);
  const Tokens tokens(gguf);
  json model = text::bpe_json(pre_tokenizer.whole_words_first);
  model["vocab"] = vocabulary(tokens);
  model["merges"] = merges(gguf);
  json root = text::pipeline_json(added_tokens(tokens), pre_tokenizer.pattern,
                                  post_processor(gguf, tokens, pre_tokenizer.begins_text));
  root["model"] = std::move(model);
  return root.dump() + "\n";
}

std::string tokenizer_config_json(const Gguf& gguf) {
  json config = json::object();
  if (const auto* chat = find<std::string>(gguf, "tokenizer.chat_template")) {
    if (!utf8::is_valid(*chat)) fail("its tokenizer.chat_template is not valid UTF-8");
    config["chat_template"] = *chat;
  }
  if (find<Texts>(gguf, "tokenizer.ggml.tokens")) {
    const Tokens tokens(gguf);
    for (const char* which : {"bos", "eos"})
      if (const auto* token =
              token_named(gguf, tokens, fmt::format("tokenizer.ggml.{}_token_id", which).c_str()))
        config[fmt::format("{}_token", which)] = *token;
  }
  return config.empty() ? "" : config.dump(2) + "\n";
}

}  // namespace genesis::models::gguf
