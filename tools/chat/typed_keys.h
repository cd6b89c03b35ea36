// The bytes that a terminal sends, as characters and pasted texts. Used by tools/chat/line_editor.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace genesis::tools {

// What a terminal writes ahead of a pasted text and behind it once it was asked to ("bracketed paste").
inline constexpr std::string_view kPasteBegin = "\x1b[200~", kPasteEnd = "\x1b[201~";

struct Key {
  enum class Kind : uint8_t { kCharacter, kNewLine, kPaste };
  Kind kind = Kind::kCharacter;
  uint32_t character = 0;  // Unicode; U+FFFD for bytes that are not UTF-8
  std::string paste = {};  // lines end with '\n'
};

// A run of 1000 bytes or more that arrives at once is a paste too: some terminals do not mark pastes, and an editor takes
// long to show such a run one character at a time.
class TypedKeys {
 public:
  // Throws Error where a paste has more than 16 MiB.
  void add(std::string_view bytes);
  // No byte has come for a while, so what could have become a longer sequence is taken as it is.
  void settle() { is_settled_ = true; }
  // Nothing where more bytes have to come first.
  std::optional<Key> next();
  bool has_bytes() const { return !waiting_.empty(); }

 private:
  std::optional<Key> marked_paste();
  std::optional<Key> long_run();
  std::optional<Key> character();
  Key take_paste(size_t begin, size_t end, size_t next);

  std::string waiting_;
  size_t searched_ = 0;  // bytes in which the end of a paste was looked for already
  bool is_settled_ = false;
};

}  // namespace genesis::tools
