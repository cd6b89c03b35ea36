// Finds the tokens that a text begins with: a tree of the tokens' bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis::text {

class PrefixTree {
 public:
  static constexpr uint32_t kRoot = 0, kNone = ~uint32_t{0};

  PrefixTree() = default;
  // Takes tokens and their ids. Of equal tokens, the last one counts.
  explicit PrefixTree(std::vector<std::pair<std::string_view, uint32_t>> tokens);

  // Returns the node below `node` for a byte, or kNone.
  uint32_t next(uint32_t node, unsigned char byte) const;
  // Returns the node of a text, or kNone if no token begins with it.
  uint32_t find(std::string_view text) const;
  // Returns the token that ends at a node; kNone if none does.
  uint32_t token(uint32_t node) const { return nodes_[node].token; }
  // Returns the id of a token, or kNone.
  uint32_t id_of(std::string_view token) const;

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;  // they are consecutive, sorted by byte
    unsigned char byte = 0;
    uint32_t token = kNone;
  };

  std::vector<Node> nodes_{Node{}};
  std::array<uint32_t, 256> below_root_ = none();

  static std::array<uint32_t, 256> none() {
    std::array<uint32_t, 256> nodes;
    nodes.fill(kNone);
    return nodes;
  }
};

}  // namespace genesis::text
