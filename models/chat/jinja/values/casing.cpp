#include "models/chat/jinja/values/casing.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "models/chat/jinja/values/casing_tables.h"
#include "models/chat/jinja/values/python_text.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

constexpr uint32_t kCapitalSigma = 0x3a3, kSigma = 0x3c3, kFinalSigma = 0x3c2;
constexpr uint32_t kDottedCapitalI = 0x130, kDotAbove = 0x307;

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

template <size_t n>
bool is_in(const CodeRange (&ranges)[n], uint32_t code) {
  const auto* after = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return after != ranges && code <= std::prev(after)->last;
}

bool has_lower(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LL || is_in(kOtherLower, code); }
bool has_upper(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LU || is_in(kOtherUpper, code); }
bool has_title(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }
bool is_cased(uint32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  return has_lower(code) || has_upper(code) || has_title(code);
}

// Returns true for characters that are skipped when the end of a word is looked for.
bool is_ignorable(uint32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return is_in(kOtherIgnorable, code);
  }
}

const SpecialCase* special(uint32_t code) {
  const auto* found = std::ranges::lower_bound(kSpecialCases, code, {}, &SpecialCase::code);
  return found != std::end(kSpecialCases) && found->code == code ? found : nullptr;
}

void append_all(std::string& text, const uint32_t (&codes)[3]) {
  for (const uint32_t code : codes)
    if (code != 0) utf8::append(text, code);
}

void append_upper(std::string& text, uint32_t code) {
  if (code >= 0x80)
    if (const SpecialCase* found = special(code)) return append_all(text, found->upper);
  utf8::append(text, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
}

void append_title(std::string& text, uint32_t code) {
  if (code >= 0x80)
    if (const SpecialCase* found = special(code)) return append_all(text, found->title);
  utf8::append(text, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
}

// Returns true if the first character that is not ignorable has a case.
template <class Codes>
bool meets_cased(const Codes& codes) {
  for (const uint32_t code : codes)
    if (!is_ignorable(code)) return is_cased(code);
  return false;
}

// Implements Python's rule: a capital sigma behind a letter that no letter follows becomes the final sigma.
bool ends_word(std::span<const uint32_t> all, size_t at) {
  const auto before = all.first(at);
  return meets_cased(std::ranges::subrange(before.rbegin(), before.rend())) &&
         !meets_cased(all.subspan(at + 1));
}

void append_lower(std::string& text, std::span<const uint32_t> all, size_t at) {
  const uint32_t code = all[at];
  if (code == kCapitalSigma) return utf8::append(text, ends_word(all, at) ? kFinalSigma : kSigma);
  if (code == kDottedCapitalI) {
    utf8::append(text, 'i');
    return utf8::append(text, kDotAbove);
  }
  utf8::append(text, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

// Builds a text by calling `append(result, all, index)` for each character.
template <class Append>
std::string changed(std::string_view text, Append&& append) {
  const std::vector<uint32_t> all = characters(text);
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < all.size(); ++at) append(result, std::span(all), at);
  return result;
}

}  // namespace

std::string lower(std::string_view text) { return changed(text, append_lower); }

std::string upper(std::string_view text) {
  return changed(text, [](std::string& result, auto all, size_t at) { append_upper(result, all[at]); });
}

std::string swapped_case(std::string_view text) {
  return changed(text, [](std::string& result, auto all, size_t at) {
    if (has_upper(all[at])) return append_lower(result, all, at);
    if (has_lower(all[at])) return append_upper(result, all[at]);
    utf8::append(result, all[at]);
  });
}

std::string folded(std::string_view text) {
  return changed(text, [](std::string& result, auto all, size_t at) {
    std::array<utf8proc_int32_t, 8> codes{};
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(all[at]), codes.data(),
                                static_cast<utf8proc_ssize_t>(codes.size()), UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      utf8::append(result, static_cast<uint32_t>(codes[static_cast<size_t>(i)]));
  });
}

std::string capitalized(std::string_view text) {
  return changed(text, [](std::string& result, auto all, size_t at) {
    at == 0 ? append_title(result, all[at]) : append_lower(result, all, at);
  });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return changed(text, [&](std::string& result, auto all, size_t at) {
    std::exchange(in_word, is_cased(all[at])) ? append_lower(result, all, at) : append_title(result, all[at]);
  });
}

std::string title_of_words(std::string_view text) {
  const auto separates = [](uint32_t code) {
    return is_python_space(code) ||
           (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
  };
  const std::vector<uint32_t> all = characters(text);
  std::string result;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;  // end of a word, or of a run of separators
    while (end < all.size() && separates(all[end]) == separates(all[begin])) ++end;
    append_upper(result, all[begin]);
    const auto word = std::span(all).subspan(begin + 1, end - begin - 1);
    for (size_t at = 0; at < word.size(); ++at) append_lower(result, word, at);
    begin = end;
  }
  return result;
}

bool is_lower(std::string_view text) {
  const std::vector<uint32_t> all = characters(text);
  return std::ranges::any_of(all, has_lower) &&
         std::ranges::none_of(all, [](uint32_t code) { return has_upper(code) || has_title(code); });
}

bool is_upper(std::string_view text) {
  const std::vector<uint32_t> all = characters(text);
  return std::ranges::any_of(all, has_upper) &&
         std::ranges::none_of(all, [](uint32_t code) { return has_lower(code) || has_title(code); });
}

bool is_title(std::string_view text) {
  bool any = false, in_word = false;
  for (const uint32_t code : characters(text)) {
    if (has_upper(code) || has_title(code)) {
      if (in_word) return false;
      any = in_word = true;
    } else if (has_lower(code)) {
      if (!in_word) return false;
    } else {
      in_word = false;
    }
  }
  return any;
}

bool is_decimal(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }
bool is_digit(uint32_t code) { return is_decimal(code) || is_in(kOtherDigits, code); }
bool is_numeric(uint32_t code) {
  const auto type = category(code);
  return type == UTF8PROC_CATEGORY_ND || type == UTF8PROC_CATEGORY_NL || type == UTF8PROC_CATEGORY_NO ||
         is_in(kOtherNumbers, code);
}
bool is_letter(uint32_t code) {
  const auto type = category(code);
  return type == UTF8PROC_CATEGORY_LU || type == UTF8PROC_CATEGORY_LL || type == UTF8PROC_CATEGORY_LT ||
         type == UTF8PROC_CATEGORY_LM || type == UTF8PROC_CATEGORY_LO;
}

bool is_printable(uint32_t code) {
  if (code == ' ') return true;
  const auto type = category(code);
  return type != UTF8PROC_CATEGORY_CC && type != UTF8PROC_CATEGORY_CF && type != UTF8PROC_CATEGORY_CS &&
         type != UTF8PROC_CATEGORY_CO && type != UTF8PROC_CATEGORY_CN && type != UTF8PROC_CATEGORY_ZL &&
         type != UTF8PROC_CATEGORY_ZP && type != UTF8PROC_CATEGORY_ZS;
}

}  // namespace genesis::jinja
