#include "schema/file/names.h"

#include <algorithm>
#include <cstdint>

#include "schema/core/error.h"

namespace genesis::file {
namespace {

struct Decoded {
  uint32_t character = 0;
  size_t bytes = 0;  // 0: there is none
};

// The form of a character by its first byte: how many bytes, and the least one that needs so many.
struct Form {
  size_t bytes;
  uint32_t least, first_bits;
};

Form form_of(unsigned char first) {
  if (first < 0x80) return {1, 0, first};
  if (first >= 0xc0 && first < 0xe0) return {2, 0x80, first & 0x1fu};
  if (first >= 0xe0 && first < 0xf0) return {3, 0x800, first & 0x0fu};
  if (first >= 0xf0 && first < 0xf8) return {4, 0x10000, first & 0x07u};
  return {0, 0, 0};
}

Decoded decode(std::string_view text) {
  const Form form = form_of(static_cast<unsigned char>(text[0]));
  if (form.bytes == 0 || form.bytes > text.size()) return {};
  uint32_t character = form.first_bits;
  for (size_t i = 1; i < form.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {};
    character = character << 6 | (byte & 0x3fu);
  }
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < form.least || character > 0x10ffff || surrogate) return {};
  return {character, form.bytes};
}

// Whether all of `text` is characters that `accepts`.
template <class Accepts>
bool consists_of(std::string_view text, const Accepts& accepts) {
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.bytes == 0 || !accepts(next.character)) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

bool is_control(uint32_t character) { return character < 0x20 || (character >= 0x7f && character < 0xa0); }

}  // namespace

bool is_utf8(std::string_view text) {
  return consists_of(text, [](uint32_t) { return true; });
}

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) fail("the name of {} is empty", what);
  if (name.size() > kMaxName)
    fail("the name of {} has {} bytes, the limit is {}", what, name.size(), kMaxName);
  if (!is_utf8(name)) fail("the name of {} is not valid UTF-8", what);
  if (!consists_of(name, [](uint32_t character) { return !is_control(character); }))
    fail("the name of {} holds control characters", what);
}

void check_text(std::string_view what, std::string_view text) {
  if (!is_utf8(text)) fail("{} is not valid UTF-8", what);
  if (text.find('\0') != std::string_view::npos) fail("{} holds a NUL character", what);
}

}  // namespace genesis::file
