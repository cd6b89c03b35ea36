#include "models/grammar/token_masks.h"

#include <algorithm>
#include <limits>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

constexpr size_t kMasks = 256;  // masks are kept for this many states

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Returns true for characters of ASCII that stand in a string of JSON as they are.
bool is_plain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

}  // namespace

TokenTree::TokenTree(const std::vector<std::string>& bytes) : bytes_(bytes), is_plain_(bytes.size()) {
  for (size_t token = 0; token < bytes.size(); ++token) {
    const std::string& text = bytes[token];
    if (text.empty()) continue;
    is_plain_[token] = std::ranges::all_of(text, is_plain);
    (is_plain_[token] ? plain_ : others_).tokens.push_back(static_cast<int64_t>(token));
    longest_ = std::max(longest_, text.size());
  }
  add_nodes(plain_);
  add_nodes(others_);
}

void TokenTree::add_nodes(Tree& tree) const {
  std::ranges::sort(tree.tokens, [&](int64_t a, int64_t b) { return bytes(a) < bytes(b); });
  std::vector<uint32_t> path;  // nodes of the bytes of the token before
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
  };
  const std::string* before = nullptr;
  for (uint32_t i = 0; i < tree.tokens.size(); ++i) {
    const std::string& text = bytes(tree.tokens[i]);
    leave(before ? common_prefix(*before, text) : 0);
    for (size_t at = path.size(); at < text.size(); ++at) {
      path.push_back(static_cast<uint32_t>(tree.nodes.size()));
      tree.nodes.push_back({.byte = static_cast<uint8_t>(text[at]),
                            .depth = static_cast<uint32_t>(at),
                            .tokens = i,
                            .tokens_end = i});
    }
    tree.nodes[path.back()].tokens_end = i + 1;
    before = &text;
  }
  leave(0);
}

void TokenTree::walk(const Tree& tree, Recognizer& recognizer, Recognizer::State state,
                     std::vector<bool>& allowed) const {
  std::vector<Recognizer::State> states(longest_ + 1, state);  // by the number of bytes before
  for (size_t i = 0; i < tree.nodes.size();) {
    const Node& node = tree.nodes[i];
    const Recognizer::State behind = recognizer.next(states[node.depth], node.byte);
    if (behind == Recognizer::kDead) {
      i = node.end;
      continue;
    }
    states[node.depth + 1] = behind;
    for (uint32_t t = node.tokens; t < node.tokens_end; ++t)
      allowed[static_cast<size_t>(tree.tokens[t])] = true;
    ++i;
  }
}

void TokenTree::allow(Recognizer& recognizer, Recognizer::State state, std::vector<bool>& allowed) const {
  bool stays = true;
  for (int c = 0; c < 256 && stays; ++c)
    stays = !is_plain(static_cast<char>(c)) || recognizer.next(state, static_cast<unsigned char>(c)) == state;
  if (stays)
    allowed = is_plain_;
  else
    walk(plain_, recognizer, state, allowed);
  walk(others_, recognizer, state, allowed);
}

TokenMasks::TokenMasks(std::shared_ptr<const TokenTree> tree, Grammar grammar, std::vector<int64_t> ends)
    : tree_(std::move(tree)), ends_(std::move(ends)), recognizer_(std::move(grammar)) {}

Recognizer::State TokenMasks::next(Recognizer::State state, int64_t token) {
  if (token < 0 || token >= tree_->size()) return state;
  const std::lock_guard lock(mutex_);
  try {
    for (const char byte : tree_->bytes(token))
      state = recognizer_.next(state, static_cast<unsigned char>(byte));
  } catch (const Error&) {
    state = Recognizer::kDead;
  }
  return state;
}

std::shared_ptr<const TokenMasks::Mask> TokenMasks::allowed(Recognizer::State state) {
  const std::lock_guard lock(mutex_);
  if (const auto found = masks_.find(state); found != masks_.end()) return found->second;
  if (masks_.size() >= kMasks) masks_.clear();
  return masks_.emplace(state, made(state)).first->second;
}

std::shared_ptr<const TokenMasks::Mask> TokenMasks::made(Recognizer::State state) {
  Mask allowed(static_cast<size_t>(tree_->size()), false);
  try {
    if (state != Recognizer::kDead) tree_->allow(recognizer_, state, allowed);
  } catch (const Error&) {  // the grammar has grown too large: the text ends here
    std::fill(allowed.begin(), allowed.end(), false);
  }
  const bool may_go_on = std::ranges::find(allowed, true) != allowed.end();
  for (const int64_t end : ends_)
    if (end >= 0 && end < std::ssize(allowed))
      allowed[static_cast<size_t>(end)] = !may_go_on || recognizer_.may_end(state);
  return std::make_shared<const Mask>(std::move(allowed));
}

void Constraint::apply(std::span<const int64_t> chosen, std::span<float> bias) {
  for (; read_ < chosen.size(); ++read_) state_ = masks_->next(state_, chosen[read_]);
  const std::shared_ptr<const TokenMasks::Mask> may = masks_->allowed(state_);
  for (size_t i = 0; i < bias.size(); ++i)
    if (i >= may->size() || !(*may)[i]) bias[i] = -std::numeric_limits<float>::infinity();
}

}  // namespace genesis::grammar
