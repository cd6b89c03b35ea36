#include "models/tokenizer/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "schema/core/error.h"

namespace genesis::text {
namespace {

constexpr size_t kPiece = 4096;  // approximate bytes of a text that are normalized at a time

// Returns true if the text is certainly in the form. In form C this holds for characters below U+0300, whose first bytes are
// below 0xcc, because none of them composes with a character before it. In the other forms it holds for ASCII.
bool is_in_form(std::string_view text, NormalizationForm form) {
  const unsigned char first = form == NormalizationForm::kC ? 0xcc : 0x80;
  return std::ranges::all_of(text, [&](char byte) { return static_cast<unsigned char>(byte) < first; });
}

// Returns true for circled and squared letters, the symbols that are Alphabetic.
bool is_enclosed_letter(uint32_t code) {
  return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
}

bool is_compatible(NormalizationForm form) {
  return form == NormalizationForm::kKC || form == NormalizationForm::kKD;
}
bool composes(NormalizationForm form) {
  return form == NormalizationForm::kC || form == NormalizationForm::kKC;
}

// Returns true if the texts before and behind a character are normalized separately from it. U+11A7, a vowel, composes with
// nothing, but utf8proc up to 2.8 takes it for a final consonant of the preceding syllable and drops it.
bool stands_alone(uint32_t code, NormalizationForm form) {
  return code == 0x11a7 || has_newer_form(code) || (is_compatible(form) && has_newer_compatible_form(code));
}

using Codes = std::vector<utf8proc_int32_t>;

void append_decomposed(uint32_t code, NormalizationForm form, Codes& codes) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  utf8proc_int32_t parts[32];  // the longest decomposition has 18
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, std::size(parts),
                                             options, &boundary);
  if (count < 0) fail("U+{:04X} cannot be decomposed: {}", code, utf8proc_errmsg(count));
  codes.insert(codes.end(), parts, parts + std::min<size_t>(static_cast<size_t>(count), std::size(parts)));
}

// Sorts the marks between two starters by their combining class (the canonical order). utf8proc sorts them by swapping neighbors,
// which takes quadratic time.
void sort_marks(Codes& codes) {
  const auto class_of = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  const auto is_starter = [&](utf8proc_int32_t code) { return class_of(code) == 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if_not(begin, codes.end(), is_starter);
    const auto end = std::find_if(begin, codes.end(), is_starter);
    if (end - begin > 1)
      std::stable_sort(begin, end, [&](auto a, auto b) { return class_of(a) < class_of(b); });
    begin = end;
  }
}

void append_normalized(std::string_view text, NormalizationForm form, std::string& out) {
  if (is_in_form(text, form)) {
    out += text;
    return;
  }
  Codes codes;
  for (size_t at = 0; at < text.size();) {
    const utf8::Character character = utf8::first_character(text.substr(at));
    append_decomposed(character.code, form, codes);
    at += character.bytes;
  }
  sort_marks(codes);
  if (composes(form)) {
    const auto count =
        utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (count < 0) fail("a text of {} bytes cannot be normalized: {}", text.size(), utf8proc_errmsg(count));
    codes.resize(static_cast<size_t>(count));
  }
  for (const utf8proc_int32_t code : codes) utf8::append(out, static_cast<uint32_t>(code));
}

}  // namespace

// Normalizes piece by piece. A text may be cut before a character of ASCII, which is a starter and does not compose with anything
// before it.
std::string_view normalized(std::string_view text, NormalizationForm form, std::string& storage) {
  if (is_in_form(text, form)) return text;
  storage.clear();
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::Character character = utf8::first_character(text.substr(at));
    const bool alone = stands_alone(character.code, form);
    if (alone || (character.code < 0x80 && at - begin >= kPiece)) {
      append_normalized(text.substr(begin, at - begin), form, storage);
      begin = at;
    }
    at += character.bytes;
    if (alone) {
      storage += text.substr(begin, at - begin);
      begin = at;
    }
  }
  append_normalized(text.substr(begin), form, storage);
  return storage;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const utf8::Character character = utf8::first_character(text.substr(at));
    at += character.bytes;
    if (character.code == 0x130) {  // the only character whose lower case has two characters
      lower += "i\u0307";
      continue;
    }
    const uint32_t newer = newer_lower_case(character.code);
    utf8::append(
        lower, newer != character.code
                   ? newer
                   : static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code))));
  }
  return lower;
}

bool is_white_space(uint32_t code) {
  return (code >= 0x9 && code <= 0xd) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

utf8::Character last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return utf8::first_character(text.substr(at));
}

size_t white_space_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const utf8::Character character = utf8::first_character(text.substr(at));
    if (!is_white_space(character.code)) break;
    at += character.bytes;
  }
  return at;
}

size_t white_space_at_end(std::string_view text) {
  const size_t all = text.size();
  while (!text.empty()) {
    const utf8::Character character = last_character(text);
    if (!is_white_space(character.code)) break;
    text.remove_suffix(character.bytes);
  }
  return all - text.size();
}

// Numbers of Unicode 17 are listed here, since `stand_in` knows Unicode 16.
bool is_number(uint32_t code) {
  constexpr uint32_t kCategories =
      1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_NO;
  const bool is_newest = (code >= 0x11de0 && code <= 0x11de9) || (code >= 0x16ff4 && code <= 0x16ff6);
  return is_newest || (kCategories >> utf8proc_category(static_cast<utf8proc_int32_t>(stand_in(code))) & 1);
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
