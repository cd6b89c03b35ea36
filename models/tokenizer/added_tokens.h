// Finds added tokens, such as <|endoftext|>, in a text before it is split into words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace genesis::text {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only if no word character is adjacent
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space behind it
  bool normalized = false;   // searched in the normalized text; its content is normalized, too
  bool special = false;      // can be left out of decoded text
};

// Finds added tokens: the leftmost match, and the longest of several that begin there. The search is an Aho-Corasick automaton
// (1975) that runs from the end of the text to its beginning, so that it yields the longest token that begins at each
// position. It takes time proportional to the text, whatever the tokens are.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  // Finds only the first of several tokens with equal content, and none with empty content. Throws Error if the
  // contents are too long in total.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Piece {
    std::string_view text;
    const AddedToken* token = nullptr;  // null: text between tokens
  };
  // Returns all of `text`, in order. A token is left out if an earlier token's `rstrip` has consumed all of it.
  std::vector<Piece> split(std::string_view text) const;

 private:
  struct Match {
    size_t begin;
    const AddedToken* token;
  };
  struct Node {
    uint32_t parent = 0, fallback = 0;
    int64_t token = -1;  // longest token that ends the search path here
    unsigned char byte = 0;
  };

  void add(size_t token);
  void link();
  uint32_t next(uint32_t node, unsigned char byte) const;
  // Returns the longest token at each position that begins one, last position first.
  std::vector<Match> matches_in(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;                       // a tree; 0 is the root
  std::unordered_map<uint64_t, uint32_t> steps_;  // node, byte -> node
  bool ends_[256] = {};                           // bytes that tokens end with
};

}  // namespace genesis::text
