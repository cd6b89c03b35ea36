#include "models/tokenizer/words/prefix_tree.h"

#include <algorithm>

namespace genesis::text {
namespace {

using Tokens = std::vector<std::pair<std::string_view, uint32_t>>;

// Removes all but the last of equal tokens; they are adjacent.
void keep_last(Tokens& tokens) {
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (i + 1 == tokens.size() || tokens[i].first != tokens[i + 1].first) tokens[kept++] = tokens[i];
  tokens.resize(kept);
}

// The sorted tokens that share the path to a node.
struct Range {
  size_t begin, end, depth;
};

}  // namespace

// Makes the nodes level by level: a node's children come one after another.
PrefixTree::PrefixTree(Tokens tokens) {
  std::ranges::stable_sort(tokens, {}, &Tokens::value_type::first);
  keep_last(tokens);
  std::vector<Range> ranges = {{0, tokens.size(), 0}};  // by node
  for (uint32_t at = 0; at < ranges.size(); ++at) {
    auto [begin, end, depth] = ranges[at];
    if (begin < end && tokens[begin].first.size() == depth) nodes_[at].token = tokens[begin++].second;
    nodes_[at].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = tokens[begin].first[depth];
      size_t behind = begin;
      while (behind < end && tokens[behind].first[depth] == byte) ++behind;
      ranges.push_back({begin, behind, depth + 1});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[at].children;
      begin = behind;
    }
  }
  for (uint32_t i = 0; i < nodes_[kRoot].children; ++i)
    below_root_[nodes_[nodes_[kRoot].first_child + i].byte] = nodes_[kRoot].first_child + i;
}

uint32_t PrefixTree::next(uint32_t node, unsigned char byte) const {
  if (node == kRoot) return below_root_[byte];
  const auto begin = nodes_.begin() + nodes_[node].first_child, end = begin + nodes_[node].children;
  const auto found = std::ranges::lower_bound(begin, end, byte, {}, &Node::byte);
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin()) : kNone;
}

uint32_t PrefixTree::find(std::string_view text) const {
  uint32_t node = kRoot;
  for (size_t i = 0; i < text.size() && node != kNone; ++i)
    node = next(node, static_cast<unsigned char>(text[i]));
  return node;
}

uint32_t PrefixTree::id_of(std::string_view text) const {
  const uint32_t node = find(text);
  return node == kNone ? kNone : token(node);
}

}  // namespace genesis::text
