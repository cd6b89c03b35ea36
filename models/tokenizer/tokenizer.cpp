#include "models/tokenizer/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/tokenizer_file.h"
#include "models/tokenizer/word_model.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/read_file.h"

namespace genesis::text {
namespace {

// The memory that one thread needs to encode, kept for reuse.
struct Workspace {
  WordCache words;
  MatchState matches;
};

class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(idle_.back());
    idle_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

struct Token {
  std::string text;        // exactly as the file has it
  std::string normalized;  // text that it decodes from, if that differs
  bool special = false;

  std::string_view shown() const { return normalized.empty() ? text : normalized; }
};

// A table of tokens by id. Ids may be sparse.
class Tokens {
 public:
  // Adds a token, or replaces an equal one. Throws Error if another token has the id.
  void put(uint32_t id, Token token) {
    if (id >= place_of_id_.size()) place_of_id_.resize(id + 1);
    uint32_t& place = place_of_id_[id];
    if (place != 0 && tokens_[place - 1].text != token.text) fail("two tokens have the id {}", id);
    if (place == 0) {
      tokens_.emplace_back();
      place = static_cast<uint32_t>(tokens_.size());
    }
    tokens_[place - 1] = std::move(token);
  }
  const Token* find(int64_t id) const {
    if (id < 0 || id >= end()) return nullptr;
    const uint32_t place = place_of_id_[static_cast<size_t>(id)];
    return place == 0 ? nullptr : &tokens_[place - 1];
  }
  int64_t end() const { return static_cast<int64_t>(place_of_id_.size()); }

 private:
  std::vector<Token> tokens_;
  std::vector<uint32_t> place_of_id_;  // index + 1; 0: no token has the id
};

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile parts, std::string name);

  void encode(std::string_view text, std::vector<int64_t>& ids) const;
  // Returns the token that the decoder gets for an id, or nothing if the id contributes no text.
  std::optional<std::string_view> shown(int64_t id, bool skip_special_tokens) const {
    const Token* token = tokens.find(id);
    if (!token || (skip_special_tokens && token->special)) return std::nullopt;
    return token->shown();
  }
  // Runs `body`; an Error that rises through it names the tokenizer.
  template <class Body>
  decltype(auto) named(const Body& body) const {
    try {
      return body();
    } catch (Error& error) {
      if (!name_.empty()) error.add_context("in " + name_);
      throw;
    }
  }

 private:
  AddedTokenFinder add_tokens(bool normalized);
  void encode_between(const Normalizer::Result& normal, Workspace& workspace,
                      std::vector<int64_t>& ids) const;

 public:
  TokenizerFile file;
  Tokens tokens;
  Decoder decoder;

 private:
  std::string name_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  WordModel model_;
  AddedTokenFinder raw_, normalized_;
  mutable Workspaces workspaces_;
};

Tokenizer::Impl::Impl(TokenizerFile parts, std::string name)
    : file(std::move(parts)),
      decoder(file.decoder, !file.has_decoder),
      name_(std::move(name)),
      normalizer_(file.normalizer),
      pre_tokenizer_(file.pre_tokenizer),
      model_(file.model.data, file.model.vocabulary, pre_tokenizer_.is_byte_level()) {
  for (const auto& [text, id] : file.model.vocabulary) tokens.put(id, {text, "", false});
  raw_ = add_tokens(false);
  normalized_ = add_tokens(true);
  for (const auto* around : {&file.prefix, &file.suffix})
    for (const int64_t id : *around)
      if (!tokens.find(id)) fail("the id {} in 'post_processor' has no token", id);
}

// Makes the finder of the added tokens that are searched in normalized text, or of the others. A token of the former kind is
// normalized itself, and decodes to the normalized content; it is special if a special token has this content. Special tokens
// come first: of two tokens with equal normalized content, the first is found.
AddedTokenFinder Tokenizer::Impl::add_tokens(bool normalized) {
  std::vector<AddedToken> sought;
  std::unordered_set<std::string> special_contents;
  for (const AddedToken& added : file.added)
    if (added.special) special_contents.insert(added.content);
  MatchState matches;
  std::string storage;
  for (const bool special : {true, false})
    for (const AddedToken& added : file.added) {
      if (added.normalized != normalized || added.special != special) continue;
      sought.push_back(added);
      matches.budget.begin(added.content.size());
      if (normalized) sought.back().content = normalizer_.normalize(added.content, matches, storage).text;
      const std::string& shown = sought.back().content;
      tokens.put(added.id,
                 {added.content, shown == added.content ? "" : shown, special_contents.contains(shown)});
      file.model.vocabulary.emplace(added.content, added.id);
    }
  return AddedTokenFinder(std::move(sought));
}

void Tokenizer::Impl::encode(std::string_view text, std::vector<int64_t>& ids) const {
  auto workspace = workspaces_.take();
  workspace->matches.budget.begin(text.size());
  std::string storage;
  for (const AddedTokenFinder::Piece& piece : raw_.split(text)) {
    if (piece.token) {
      ids.push_back(piece.token->id);
      continue;
    }
    Normalizer::Result normal = normalizer_.normalize(piece.text, workspace->matches, storage);
    if (piece.text.data() != text.data()) normal.origin = 0;
    encode_between(normal, *workspace, ids);
  }
  workspaces_.give_back(std::move(workspace));
}

void Tokenizer::Impl::encode_between(const Normalizer::Result& normal, Workspace& workspace,
                                     std::vector<int64_t>& ids) const {
  for (const AddedTokenFinder::Piece& piece : normalized_.split(normal.text)) {
    if (piece.token) {
      ids.push_back(piece.token->id);
      continue;
    }
    const auto before = static_cast<size_t>(piece.text.data() - normal.text.data());
    const size_t origin = normal.origin - std::min(normal.origin, before);
    const auto encode = [&](std::string_view word) {
      model_.encode(word, workspace.words, workspace.matches.budget, ids);
    };
    pre_tokenizer_.for_each_word(piece.text, origin, workspace.matches, encode);
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const auto file = is_folder ? path / "tokenizer.json" : path;
  const std::string json = is_folder ? read_regular_file(file) : read_whole_file(file);
  return parse(json, "tokenizer " + file.string());
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  const auto make = [&] { return std::make_shared<const Impl>(parse_tokenizer_file(json), name); };
  if (name.empty()) return Tokenizer(make());
  return Tokenizer(with_context(make, [&] { return "in " + name; }));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size() / 3);
  if (add_special_tokens) ids = impl_->file.prefix;
  impl_->named(
      [&] { utf8::is_valid(text) ? impl_->encode(text, ids) : impl_->encode(utf8::repaired(text), ids); });
  if (add_special_tokens) ids.insert(ids.end(), impl_->file.suffix.begin(), impl_->file.suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::string text;
  Decoder::State state;
  impl_->named([&] {
    for (const int64_t id : ids)
      if (const auto token = impl_->shown(id, skip_special_tokens)) impl_->decoder.add(*token, state, text);
    impl_->decoder.finish(state, text);
  });
  return text;
}

int64_t Tokenizer::vocab_size() const { return impl_->tokens.end(); }

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = impl_->file.model.vocabulary.find(token);
  return found == impl_->file.model.vocabulary.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  const Token* token = impl_->tokens.find(id);
  return token ? std::optional(token->text) : std::nullopt;
}

bool Tokenizer::is_added(int64_t id) const {
  return std::ranges::any_of(impl_->file.added, [&](const AddedToken& token) { return token.id == id; });
}

std::string StreamDecoder::add(int64_t id) {
  std::string text;
  const auto token = tokenizer_.impl_->shown(id, skip_special_tokens_);
  if (token) tokenizer_.impl_->named([&] { tokenizer_.impl_->decoder.add(*token, state_, text); });
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  tokenizer_.impl_->named([&] { tokenizer_.impl_->decoder.finish(state_, text); });
  return text;
}

}  // namespace genesis::text
