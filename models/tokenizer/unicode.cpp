#include "models/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "models/tokenizer/newer_characters.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

// Every text of characters below U+0300 is in form C: no such character composes with one before it. Their first bytes
// are below 0xcc.
bool is_below_combining(std::string_view text) {
  for (const unsigned char byte : text)
    if (byte >= 0xcc) return false;
  return true;
}

// Circled and squared letters, the symbols that are Alphabetic.
bool is_enclosed_letter(uint32_t code) {
  return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
}

// Whether a character stands between texts that are normalized by themselves. U+11A7, a vowel, composes with nothing, but
// utf8proc up to 2.8 takes it for a final consonant of the syllable before it, and drops it.
bool stands_alone(uint32_t code) { return code == 0x11a7 || has_newer_form(code); }

void append_nfc(std::string_view text, std::string& out) {
  utf8proc_uint8_t* composed = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &composed,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0) fail("a text of {} bytes cannot be normalized: {}", text.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
}

}  // namespace

std::string_view nfc(std::string_view text, std::string& storage) {
  if (is_below_combining(text)) return text;
  storage.clear();
  for (size_t at = 0; at < text.size();) {
    const utf8::Character character = utf8::first_character(text.substr(at));
    if (!stands_alone(character.code)) {
      at += character.bytes;
      continue;
    }
    append_nfc(text.substr(0, at), storage);
    storage += text.substr(at, character.bytes);
    text.remove_prefix(at + character.bytes);
    at = 0;
  }
  append_nfc(text, storage);
  return storage;
}

bool is_white_space(uint32_t code) {
  return (code >= 0x9 && code <= 0xd) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

bool is_word_character(uint32_t code) {
  constexpr uint32_t kCategories =
      1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
      1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO | 1u << UTF8PROC_CATEGORY_MN |
      1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME | 1u << UTF8PROC_CATEGORY_ND |
      1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_PC;
  const bool is_one = kCategories >> utf8proc_category(static_cast<utf8proc_int32_t>(stand_in(code))) & 1;
  return is_one || is_enclosed_letter(code) || code == 0x200c || code == 0x200d;
}

}  // namespace genesis::text
