// Searches for a fixed text in time linear in the sizes (Knuth, Morris and Pratt 1977).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis::text {

class Literal {
 public:
  // Throws Error for an empty text.
  explicit Literal(std::string text);

  const std::string& text() const { return text_; }
  // Returns how many bytes of the literal a text ends with after `byte` is appended to it. Before, it ended with `matched` bytes,
  // fewer than all.
  size_t next(size_t matched, char byte) const {
    while (matched > 0 && text_[matched] != byte) matched = fallback_[matched];
    return text_[matched] == byte ? matched + 1 : 0;
  }
  // Returns the range of the first match at or behind `from`; an empty range at the end of the text if there is none.
  std::pair<size_t, size_t> find(std::string_view text, size_t from) const;

  // Calls `on_piece(piece, is_match)` with the matches and the text between them, in order.
  template <class OnPiece>
  void split(std::string_view text, const OnPiece& on_piece) const {
    for (size_t at = 0; at < text.size();) {
      const auto [begin, end] = find(text, at);
      if (begin > at) on_piece(text.substr(at, begin - at), false);
      if (end > begin) on_piece(text.substr(begin, end - begin), true);
      at = end;
    }
  }

 private:
  std::string text_;
  std::vector<size_t> fallback_;  // [i]: the longest proper prefix that is a suffix of the first i bytes
};

}  // namespace genesis::text
