// A text that is looked for in others, in time that grows with their sizes alone (Knuth, Morris and Pratt 1977).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis::text {

class Literal {
 public:
  // Throws Error for an empty one.
  explicit Literal(std::string text);

  const std::string& text() const { return text_; }
  // How many bytes of the literal a text ends with, after it ended with `matched` of them, not all, and `byte` followed.
  size_t next(size_t matched, char byte) const {
    while (matched > 0 && text_[matched] != byte) matched = fallback_[matched];
    return text_[matched] == byte ? matched + 1 : 0;
  }
  // The first match from `from` on; empty, at the end of the text, when there is none.
  std::pair<size_t, size_t> find(std::string_view text, size_t from) const;

  // Calls `on_piece(piece, is_match)` with the matches, and with what lies between them, in their order.
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
