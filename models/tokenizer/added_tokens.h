// Tokens that are found in a text before it is cut into words: <|endoftext|> and the like.
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
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the white space before it with it
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in the normalized text, where its content is normalized, too
  bool special = false;      // left out of decoded text when that is asked for
};

// Finds some of them: of those that begin first, the longest.
class AddedTokenFinder {
 public:
  // Throws Error when two tokens have the same content.
  void add(const AddedToken& token);

  struct Piece {
    std::string_view text;
    const AddedToken* token = nullptr;  // null: text between tokens
  };
  // All of `text`, in its order.
  std::vector<Piece> split(std::string_view text) const;

 private:
  // The longest token that `text` begins with.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, uint32_t> steps_;  // a tree: node, byte -> node; 0 is the root
  std::vector<int64_t> token_at_ = {-1};          // by node; -1: no token ends here
  bool begins_[256] = {};
};

}  // namespace genesis::text
