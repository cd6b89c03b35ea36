#include "models/tokenizer/unicode/character_filters.h"

#include "models/tokenizer/unicode/filter_tables.h"
#include "models/tokenizer/unicode/unicode.h"

namespace genesis::text {
namespace {

// Returns `text` with each character changed by `add(out, code, character)`. ASCII from space to tilde stays as it is.
template <class Add>
std::string changed(std::string_view text, const Add& add) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] >= ' ' && text[at] <= '~') {
      out += text[at++];
      continue;
    }
    const utf8::Character character = utf8::first_character(text.substr(at));
    add(out, character.code, text.substr(at, character.bytes));
    at += character.bytes;
  }
  return out;
}

std::string without(std::string_view text, std::span<const CharacterRange> removed) {
  return changed(text, [&](std::string& out, uint32_t code, std::string_view character) {
    if (!find_row(removed, code)) out += character;
  });
}

// The last range but two begins at U+2B920, not at U+2B820, as in `tokenizers` and in Google's code for BERT.
bool is_ideograph(uint32_t code) {
  return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) ||
         (code >= 0x20000 && code <= 0x2a6df) || (code >= 0x2a700 && code <= 0x2b81f) ||
         (code >= 0x2b920 && code <= 0x2ceaf) || (code >= 0xf900 && code <= 0xfaff) ||
         (code >= 0x2f800 && code <= 0x2fa1f);
}

bool nmt_removes(uint32_t code) {
  return (code >= 0x1 && code <= 0x8) || code == 0xb || (code >= 0xe && code <= 0x1f) || code == 0x7f ||
         code == 0x8f || code == 0x9f;
}

bool is_space_of_nmt(uint32_t code) {
  return code == 0x9 || code == 0xa || code == 0xc || code == 0xd || code == 0x1680 ||
         (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
         code == 0xfeff || code == 0xfffd;
}

}  // namespace

std::string clean_text(std::string_view text) {
  return changed(text, [](std::string& out, uint32_t code, std::string_view character) {
    if (find_row(std::span<const CharacterRange>(kControls), code)) return;
    out += is_white_space(code) ? std::string_view(" ") : character;
  });
}

std::string spaced_ideographs(std::string_view text) {
  return changed(text, [](std::string& out, uint32_t code, std::string_view character) {
    if (!is_ideograph(code)) {
      out += character;
      return;
    }
    out += ' ';
    out += character;
    out += ' ';
  });
}

std::string without_nonspacing_marks(std::string_view text) { return without(text, kNonspacingMarks); }
std::string without_marks(std::string_view text) { return without(text, kMarks); }

std::string nmt_text(std::string_view text) {
  return changed(text, [](std::string& out, uint32_t code, std::string_view character) {
    if (!nmt_removes(code)) out += is_space_of_nmt(code) ? std::string_view(" ") : character;
  });
}

}  // namespace genesis::text
