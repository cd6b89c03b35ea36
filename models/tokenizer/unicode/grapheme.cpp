#include "models/tokenizer/unicode/grapheme.h"

#include <utf8proc.h>

#include "models/tokenizer/unicode/filter_tables.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

// Returns a character that all versions of utf8proc treat as `tokenizers` treats `code`: newer marks extend, U+113D1 comes
// before a letter, and U+11A3A stands alone.
utf8proc_int32_t known(uint32_t code) {
  if (code < 0x300) return static_cast<utf8proc_int32_t>(code);
  if (code == 0x113d1) return 0x600;
  if (code == 0x11a3a) return 'a';
  const bool extends = find_row(std::span<const CharacterRange>(kNewerExtenders), code) != nullptr;
  return extends ? 0x300 : static_cast<utf8proc_int32_t>(code);
}

}  // namespace

size_t first_cluster(std::string_view text) {
  utf8::Character last = utf8::first_character(text);
  utf8proc_int32_t state = 0;
  size_t at = last.bytes;
  while (at < text.size()) {
    const utf8::Character next = utf8::first_character(text.substr(at));
    const bool plain = last.code < 0x300 && next.code < 0x300 && last.code != '\r';
    if (plain || utf8proc_grapheme_break_stateful(known(last.code), known(next.code), &state)) break;
    at += next.bytes;
    last = next;
  }
  return at;
}

}  // namespace genesis::text
