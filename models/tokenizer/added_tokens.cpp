#include "models/tokenizer/added_tokens.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/tokenizer/unicode/unicode.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr size_t kMaxBytes = 4 << 20;  // total of all tokens; each byte takes about fifty bytes of memory

bool is_single_word(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_word_character(last_character(before).code)) &&
         (behind.empty() || !is_word_character(utf8::first_character(behind).code));
}

uint64_t step(uint32_t node, unsigned char byte) { return uint64_t{node} << 8 | byte; }

// Finds the end of the white space that begins at a position. It remembers the last run, so that no run is scanned twice.
class WhiteSpaceEnds {
 public:
  explicit WhiteSpaceEnds(std::string_view text) : text_(text) {}
  size_t from(size_t at) {
    if (at < begin_ || at >= end_) {
      begin_ = at;
      end_ = at + white_space_at_start(text_.substr(at));
    }
    return end_;
  }

 private:
  std::string_view text_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.content.size();
  if (bytes > kMaxBytes)
    fail("the texts of 'added_tokens' have {} bytes in all, the limit is {}", bytes, kMaxBytes);
  nodes_.resize(1);
  for (size_t i = 0; i < tokens_.size(); ++i)
    if (!tokens_[i].content.empty()) add(i);
  link();
}

void AddedTokenFinder::add(size_t token) {
  const std::string& content = tokens_[token].content;
  ends_[static_cast<unsigned char>(content.back())] = true;
  uint32_t node = 0;
  for (size_t i = content.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(content[i]);
    const auto [found, is_new] = steps_.try_emplace(step(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({.parent = node, .byte = byte});
    node = found->second;
  }
  if (nodes_[node].token < 0) nodes_[node].token = static_cast<int64_t>(token);
}

// Sets the fallbacks in the order of depth, because a node's fallback is less deep and must be known first.
void AddedTokenFinder::link() {
  std::vector<uint32_t> depth(nodes_.size()), order(nodes_.size());
  for (size_t i = 1; i < nodes_.size(); ++i) depth[i] = depth[nodes_[i].parent] + 1;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](uint32_t node) { return depth[node]; });
  for (const uint32_t i : order) {
    Node& node = nodes_[i];
    if (depth[i] > 1) node.fallback = next(nodes_[node.parent].fallback, node.byte);
    if (node.token < 0 && i != 0) node.token = nodes_[node.fallback].token;
  }
}

uint32_t AddedTokenFinder::next(uint32_t node, unsigned char byte) const {
  for (;; node = nodes_[node].fallback) {
    if (const auto found = steps_.find(step(node, byte)); found != steps_.end()) return found->second;
    if (node == 0) return 0;
  }
}

std::vector<AddedTokenFinder::Match> AddedTokenFinder::matches_in(std::string_view text) const {
  std::vector<Match> matches;
  if (tokens_.empty()) return matches;
  uint32_t node = 0;
  for (size_t at = text.size(); at-- > 0;) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (node == 0 && !ends_[byte]) continue;
    node = next(node, byte);
    if (const int64_t token = nodes_[node].token; token >= 0)
      matches.push_back({at, &tokens_[static_cast<size_t>(token)]});
  }
  return matches;
}

std::vector<AddedTokenFinder::Piece> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;  // text before this position is in `pieces`
  const auto piece = [&](size_t begin, size_t end, const AddedToken* token) {
    if (begin < end) pieces.push_back({text.substr(begin, end - begin), token});
  };
  WhiteSpaceEnds white_space(text);
  const std::vector<Match> matches = matches_in(text);
  size_t at = 0;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->begin < at) continue;
    const AddedToken* token = match->token;
    size_t begin = match->begin, end = at = begin + token->content.size();
    if (token->single_word && !is_single_word(text.substr(0, begin), text.substr(end))) continue;
    if (token->lstrip)
      begin = begin <= done ? done : begin - white_space_at_end(text.substr(done, begin - done));
    if (token->rstrip) end = white_space.from(end);
    piece(done, begin, nullptr);
    piece(begin, end, token);
    done = end;
  }
  piece(done, text.size(), nullptr);
  return pieces;
}

}  // namespace genesis::text
