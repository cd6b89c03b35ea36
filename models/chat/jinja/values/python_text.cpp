#include "models/chat/jinja/values/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_cased(uint32_t code) {
  const auto type = category(code);
  return type == UTF8PROC_CATEGORY_LU || type == UTF8PROC_CATEGORY_LL || type == UTF8PROC_CATEGORY_LT;
}

uint32_t lower_of(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}
uint32_t upper_of(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
uint32_t title_of(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
}

// Each character through `change(code)`.
template <class Change>
std::string changed(std::string_view text, Change&& change) {
  std::string result;
  result.reserve(text.size());
  for (const uint32_t code : characters(text)) utf8::append(result, change(code));
  return result;
}

// The bytes of the last character.
size_t last_character(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[text.size() - bytes]) & 0xc0) == 0x80)
    ++bytes;
  return bytes;
}

bool is_unwanted(std::string_view character, const std::optional<std::string>& unwanted) {
  return unwanted ? unwanted->find(character) != std::string::npos
                  : is_python_space(utf8::first_character(character).code);
}

bool ends_line(uint32_t code) {
  return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

// Whether all cased characters satisfy `is_right`, and there is one.
template <class IsRight>
bool all_cased(std::string_view text, IsRight&& is_right) {
  bool any = false;
  for (const uint32_t code : characters(text)) {
    if (!is_cased(code)) continue;
    if (!is_right(category(code))) return false;
    any = true;
  }
  return any;
}

}  // namespace

bool is_python_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> codes;
  codes.reserve(text.size());
  while (!text.empty()) {
    const utf8::Character character = utf8::first_character(text);
    codes.push_back(character.valid ? character.code : 0xfffd);
    text.remove_prefix(character.bytes);
  }
  return codes;
}

std::string text_of(const std::vector<uint32_t>& characters) {
  std::string text;
  for (const uint32_t code : characters) utf8::append(text, code);
  return text;
}

int64_t length_of(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string_view strip(std::string_view text, Side side, const std::optional<std::string>& unwanted) {
  while (side != Side::kRight && !text.empty()) {
    const size_t bytes = utf8::first_character(text).bytes;
    if (!is_unwanted(text.substr(0, bytes), unwanted)) break;
    text.remove_prefix(bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const size_t bytes = last_character(text);
    if (!is_unwanted(text.substr(text.size() - bytes), unwanted)) break;
    text.remove_suffix(bytes);
  }
  return text;
}

std::vector<std::string> split_by_space(std::string_view text, int64_t most) {
  std::vector<std::string> parts;
  for (text = strip(text, Side::kLeft); !text.empty(); text = strip(text, Side::kLeft)) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(strip(text, Side::kRight));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const utf8::Character next = utf8::first_character(text.substr(end));
      if (is_python_space(next.code)) break;
      end += next.bytes;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string> split_by(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t end = text.find(separator, at);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

std::vector<std::string> split_by_from_right(std::string_view text, std::string_view separator,
                                             int64_t most) {
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.emplace_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::Character next = utf8::first_character(text.substr(at));
    const size_t bytes = text.substr(at, 2) == "\r\n" ? 2 : next.bytes;
    if (ends_line(next.code)) {
      lines.emplace_back(text.substr(begin, at - begin));
      begin = at + bytes;
    }
    at += bytes;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t most,
                     const std::function<void(size_t bytes)>& check) {
  std::string result;
  int64_t done = 0;
  size_t at = 0;
  const auto replace_here = [&](size_t found) {
    check(result.size() + (found - at) + by.size());
    result.append(text.substr(at, found - at)).append(by);
    ++done;
  };
  while (most < 0 || done < most) {
    // An empty text stands before every character and at the end.
    const size_t from = what.empty() && done > 0 ? at + utf8::first_character(text.substr(at)).bytes : at;
    const size_t found = text.find(what, from);
    if (found == std::string_view::npos) break;
    replace_here(found);
    at = found + what.size();
    if (what.empty() && at == text.size()) break;
  }
  check(result.size() + (text.size() - at));
  return result.append(text.substr(at));
}

std::string lower(std::string_view text) { return changed(text, lower_of); }
std::string upper(std::string_view text) { return changed(text, upper_of); }

std::string capitalized(std::string_view text) {
  bool first = true;
  return changed(
      text, [&](uint32_t code) { return std::exchange(first, false) ? title_of(code) : lower_of(code); });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return changed(text, [&](uint32_t code) {
    return std::exchange(in_word, is_cased(code)) ? lower_of(code) : title_of(code);
  });
}

std::string title_of_words(std::string_view text) {
  bool begins = true;
  return changed(text, [&](uint32_t code) {
    const bool separates =
        is_python_space(code) ||
        (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
    return std::exchange(begins, separates) ? upper_of(code) : lower_of(code);
  });
}

bool is_lower(std::string_view text) {
  return all_cased(text, [](auto type) { return type == UTF8PROC_CATEGORY_LL; });
}
bool is_upper(std::string_view text) {
  return all_cased(text, [](auto type) { return type == UTF8PROC_CATEGORY_LU; });
}
bool is_decimal(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }
bool is_letter(uint32_t code) {
  const auto type = category(code);
  return is_cased(code) || type == UTF8PROC_CATEGORY_LM || type == UTF8PROC_CATEGORY_LO;
}

bool is_printable(uint32_t code) {
  if (code == ' ') return true;
  const auto type = category(code);
  return type != UTF8PROC_CATEGORY_CC && type != UTF8PROC_CATEGORY_CF && type != UTF8PROC_CATEGORY_CS &&
         type != UTF8PROC_CATEGORY_CO && type != UTF8PROC_CATEGORY_CN && type != UTF8PROC_CATEGORY_ZL &&
         type != UTF8PROC_CATEGORY_ZP && type != UTF8PROC_CATEGORY_ZS;
}

std::string escaped_html(std::string_view text) {
  static constexpr std::string_view kSigns = "&<>'\"";
  static constexpr const char* kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string result;
  for (const char c : text)
    if (const size_t at = kSigns.find(c); at == std::string_view::npos)
      result += c;
    else
      result += kNames[at];
  return result;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace genesis::jinja
