// Splits the bytes that a terminal sends into characters and pasted texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace genesis::tools {

// Escape codes that a terminal sends before and after a pasted text, once "bracketed paste" was switched on.
inline constexpr std::string_view kPasteBegin = "\x1b[200~", kPasteEnd = "\x1b[201~";

struct Key {
  enum class Kind : uint8_t { kCharacter, kNewLine, kPaste };
  Kind kind = Kind::kCharacter;
  uint32_t character = 0;  // Unicode; U+FFFD for bytes that are not UTF-8
  std::string paste = {};  // lines end with '\n'
};

// A run of 1000 bytes or more that arrives at once also counts as a paste: some terminals do not mark pastes, and an
// editor is slow to show such a run one character at a time.
class TypedKeys {
 public:
  // Throws Error if a paste has more than 16 MiB.
  void add(std::string_view bytes);
  // Says that no byte has come for a while, so an incomplete escape sequence is taken as it is.
  void settle() { is_settled_ = true; }
  // Returns the next key, or nothing if more bytes have to come first.
  std::optional<Key> next();
  bool has_bytes() const { return !waiting_.empty(); }

 private:
  std::optional<Key> marked_paste();
  std::optional<Key> long_run();
  std::optional<Key> character();
  Key take_paste(size_t begin, size_t end, size_t next);

  std::string waiting_;
  size_t searched_ = 0;  // bytes already searched for the end of a paste
  bool is_settled_ = false;
};

}  // namespace genesis::tools
