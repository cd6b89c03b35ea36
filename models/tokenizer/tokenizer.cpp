#include "models/tokenizer/tokenizer.h"

#include <algorithm>
#include <mutex>

#include "models/tokenizer/byte_alphabet.h"
#include "models/tokenizer/tokenizer_file.h"
#include "models/tokenizer/unicode.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/read_file.h"

namespace genesis::text {
namespace {

// What one thread needs while it encodes, kept for the next.
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
  std::string text;   // as the file writes it
  std::string bytes;  // what it decodes to
  bool exists = false, special = false;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerFile parts);

  const Token* token(int64_t id) const {
    const bool known =
        id >= 0 && id < static_cast<int64_t>(tokens.size()) && tokens[static_cast<size_t>(id)].exists;
    return known ? &tokens[static_cast<size_t>(id)] : nullptr;
  }
  std::string_view bytes(int64_t id, bool skip_special_tokens) const {
    const Token* found = token(id);
    return !found || (skip_special_tokens && found->special) ? std::string_view() : found->bytes;
  }
  void encode(std::string_view text, std::vector<int64_t>& ids) const;

 private:
  void add(const AddedToken& added);
  void put(uint32_t id, const std::string& text, const std::string& decoded, bool special);
  void encode_between(std::string_view text, Workspace& workspace, std::vector<int64_t>& ids) const;
  void encode_words(std::string_view text, size_t split, Workspace& workspace,
                    std::vector<int64_t>& ids) const;

 public:
  TokenizerFile file;
  std::vector<Token> tokens;  // by id

 private:
  Bpe bpe_;
  AddedTokenFinder raw_, normalized_;
  mutable Workspaces workspaces_;
};

Tokenizer::Impl::Impl(TokenizerFile parts)
    : file(std::move(parts)), bpe_(file.vocabulary, file.merges, file.whole_words_first) {
  for (const auto& [text, id] : file.vocabulary) put(id, text, text, false);
  for (const AddedToken& added : file.added) add(added);
  for (const auto* around : {&file.prefix, &file.suffix})
    for (const int64_t id : *around)
      if (!token(id)) fail("the id {} in 'post_processor' has no token", id);
}

void Tokenizer::Impl::put(uint32_t id, const std::string& text, const std::string& decoded, bool special) {
  if (id >= tokens.size()) tokens.resize(id + 1);
  if (tokens[id].exists && tokens[id].text != text) fail("two tokens have the id {}", id);
  tokens[id] = {text, alphabet_bytes(decoded).value_or(decoded), true, special};
}

// A token that is looked for in normalized text is normalized itself, and decodes to that.
void Tokenizer::Impl::add(const AddedToken& added) {
  std::string storage;
  AddedToken sought = added;
  if (added.normalized && file.normalizes) sought.content = nfc(added.content, storage);
  put(added.id, added.content, sought.content, added.special);
  file.vocabulary.emplace(added.content, added.id);
  (added.normalized ? normalized_ : raw_).add(sought);
}

void Tokenizer::Impl::encode(std::string_view text, std::vector<int64_t>& ids) const {
  auto workspace = workspaces_.take();
  std::string storage;
  for (const AddedTokenFinder::Piece& piece : raw_.split(text)) {
    if (piece.token)
      ids.push_back(piece.token->id);
    else
      encode_between(file.normalizes ? nfc(piece.text, storage) : piece.text, *workspace, ids);
  }
  workspaces_.give_back(std::move(workspace));
}

void Tokenizer::Impl::encode_between(std::string_view text, Workspace& workspace,
                                     std::vector<int64_t>& ids) const {
  for (const AddedTokenFinder::Piece& piece : normalized_.split(text)) {
    if (piece.token)
      ids.push_back(piece.token->id);
    else
      encode_words(piece.text, 0, workspace, ids);
  }
}

// Cuts with the expressions from `split` on. A piece that gets a space in front begins with one when it comes here again.
void Tokenizer::Impl::encode_words(std::string_view text, size_t split, Workspace& workspace,
                                   std::vector<int64_t>& ids) const {
  if (split == file.prefix_space && !text.starts_with(' '))
    return encode_words(" " + std::string(text), split, workspace, ids);
  if (split == file.splits.size()) return bpe_.encode(text, workspace.words, ids);
  file.splits[split].split(text, workspace.matches,
                           [&](std::string_view word) { encode_words(word, split + 1, workspace, ids); });
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const auto file = is_folder ? path / "tokenizer.json" : path;
  const std::string json = is_folder ? read_regular_file(file) : read_whole_file(file);
  return with_context([&] { return parse(json); }, [&] { return "in tokenizer " + file.string(); });
}

Tokenizer Tokenizer::parse(std::string_view json) {
  return Tokenizer(std::make_shared<const Impl>(parse_tokenizer_file(json)));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size() / 3);
  if (add_special_tokens) ids = impl_->file.prefix;
  utf8::is_valid(text) ? impl_->encode(text, ids) : impl_->encode(utf8::repaired(text), ids);
  if (add_special_tokens) ids.insert(ids.end(), impl_->file.suffix.begin(), impl_->file.suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int64_t id : ids) bytes += impl_->bytes(id, skip_special_tokens);
  return utf8::repaired(bytes);
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->tokens.size()); }

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = impl_->file.vocabulary.find(token);
  return found == impl_->file.vocabulary.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  const Token* token = impl_->token(id);
  return token ? std::optional(token->text) : std::nullopt;
}

bool Tokenizer::is_added(int64_t id) const {
  return std::ranges::any_of(impl_->file.added, [&](const AddedToken& token) { return token.id == id; });
}

std::string StreamDecoder::add(int64_t id) {
  pending_ += tokenizer_.impl_->bytes(id, skip_special_tokens_);
  const size_t whole = utf8::whole_characters(pending_);
  std::string text = utf8::repaired(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return text;
}

std::string StreamDecoder::finish() { return utf8::repaired(std::exchange(pending_, {})); }

}  // namespace genesis::text
