#include "models/tokenizer/added_tokens.h"

#include <algorithm>

#include "models/tokenizer/unicode.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

uint32_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return utf8::first_character(text.substr(at)).code;
}

size_t bytes_of(uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

size_t white_space_at_end(std::string_view text) {
  const size_t all = text.size();
  for (uint32_t code; !text.empty() && is_white_space(code = last_character(text));)
    text.remove_suffix(bytes_of(code));
  return all - text.size();
}

size_t white_space_at_start(std::string_view text) {
  const size_t all = text.size();
  for (uint32_t code; !text.empty() && is_white_space(code = utf8::first_character(text).code);)
    text.remove_prefix(bytes_of(code));
  return all - text.size();
}

bool is_single_word(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_word_character(last_character(before))) &&
         (behind.empty() || !is_word_character(utf8::first_character(behind).code));
}

uint64_t step(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }

}  // namespace

void AddedTokenFinder::add(const AddedToken& token) {
  uint32_t node = 0;
  for (const char byte : token.content) {
    const auto [next, is_new] = steps_.try_emplace(step(node, byte), static_cast<uint32_t>(token_at_.size()));
    if (is_new) token_at_.push_back(-1);
    node = next->second;
  }
  if (token_at_[node] >= 0)
    fail("the added tokens {} and {} are the same text", tokens_[static_cast<size_t>(token_at_[node])].id,
         token.id);
  token_at_[node] = static_cast<int64_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<unsigned char>(token.content[0])] = true;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  int64_t longest = -1;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto next = steps_.find(step(node, byte));
    if (next == steps_.end()) break;
    node = next->second;
    if (token_at_[node] >= 0) longest = token_at_[node];
  }
  return longest < 0 ? nullptr : &tokens_[static_cast<size_t>(longest)];
}

std::vector<AddedTokenFinder::Piece> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;  // what stands before it is in a piece
  const auto piece = [&](size_t begin, size_t end, const AddedToken* token) {
    if (begin < end || token) pieces.push_back({text.substr(begin, std::max(begin, end) - begin), token});
  };
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    const AddedToken* token =
        begins_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at = at + token->content.size();
    if (token->single_word && !is_single_word(text.substr(0, begin), text.substr(end))) continue;
    if (token->lstrip) begin = std::max(begin - white_space_at_end(text.substr(0, begin)), done);
    if (token->rstrip) end += white_space_at_start(text.substr(end));
    piece(done, begin, nullptr);
    piece(begin, end, token);
    done = end;
  }
  piece(done, text.size(), nullptr);
  return pieces;
}

}  // namespace genesis::text
