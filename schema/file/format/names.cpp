#include "schema/file/format/names.h"

#include <cstdint>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::file {
namespace {

// Returns true if `accepts` accepts every character of `text`.
template <class Accepts>
bool consists_of(std::string_view text, const Accepts& accepts) {
  while (!text.empty()) {
    const utf8::Character next = utf8::first_character(text);
    if (!next.valid || !accepts(next.code)) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

bool is_control(uint32_t character) { return character < 0x20 || (character >= 0x7f && character < 0xa0); }

}  // namespace

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) fail("the name of {} is empty", what);
  if (name.size() > kMaxName)
    fail("the name of {} has {} bytes, the limit is {}", what, name.size(), kMaxName);
  if (!utf8::is_valid(name)) fail("the name of {} is not valid UTF-8", what);
  if (!consists_of(name, [](uint32_t character) { return !is_control(character); }))
    fail("the name of {} holds control characters", what);
}

void check_file_name(std::string_view name) {
  constexpr size_t kLongest = 255;  // limit of common file systems
  check_name("a file", name);
  if (name.size() > kLongest) fail("the name of a file has {} bytes, the limit is {}", name.size(), kLongest);
  if (name.find('/') != std::string_view::npos || name == "." || name == "..")
    fail("'{}' is not the name of a file: it may hold no '/' and be neither '.' nor '..'", name);
}

void check_text(std::string_view what, std::string_view text) {
  if (!utf8::is_valid(text)) fail("{} is not valid UTF-8", what);
  if (text.find('\0') != std::string_view::npos) fail("{} holds a NUL character", what);
}

}  // namespace genesis::file
