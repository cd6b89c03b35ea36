#include "models/chat/jinja/values/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

// Returns the number of bytes of the last character.
size_t last_character(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[text.size() - bytes]) & 0xc0) == 0x80)
    ++bytes;
  return bytes;
}

// The set of characters that strip() removes.
class Unwanted {
 public:
  explicit Unwanted(const std::optional<std::string>& chosen) : is_space_(!chosen) {
    if (!chosen) return;
    codes_ = characters(*chosen);
    std::ranges::sort(codes_);
    codes_.erase(std::unique(codes_.begin(), codes_.end()), codes_.end());
  }
  bool has(std::string_view character) const {
    const uint32_t code = utf8::first_character(character).code;
    return is_space_ ? is_python_space(code) : std::ranges::binary_search(codes_, code);
  }

 private:
  bool is_space_;
  std::vector<uint32_t> codes_;
};

bool ends_line(uint32_t code) {
  return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

// Returns, for each i, the length of the longest proper prefix of what[0..i] that is also its suffix: the table of Knuth, Morris
// and Pratt.
std::vector<size_t> borders_of(std::string_view what) {
  std::vector<size_t> borders(what.size(), 0);
  for (size_t i = 1, length = 0; i < what.size(); ++i) {
    while (length > 0 && what[i] != what[length]) length = borders[length - 1];
    if (what[i] == what[length]) ++length;
    borders[i] = length;
  }
  return borders;
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

size_t byte_of(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && index-- == 0) break;
  return at;
}

// Uses memmem(), which is linear, unlike std::string_view::find.
size_t find_text(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (what.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

size_t rfind_text(std::string_view text, std::string_view what) {
  if (what.size() > text.size()) return std::string_view::npos;
  if (what.empty()) return text.size();
  const std::string backward(what.rbegin(), what.rend());
  const std::vector<size_t> borders = borders_of(backward);
  for (size_t at = text.size(), length = 0; at-- > 0;) {
    while (length > 0 && text[at] != backward[length]) length = borders[length - 1];
    if (text[at] == backward[length]) ++length;
    if (length == what.size()) return at;
  }
  return std::string_view::npos;
}

std::string_view strip(std::string_view text, Side side, const std::optional<std::string>& chosen) {
  const Unwanted unwanted(chosen);
  while (side != Side::kRight && !text.empty()) {
    const size_t bytes = utf8::first_character(text).bytes;
    if (!unwanted.has(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const size_t bytes = last_character(text);
    if (!unwanted.has(text.substr(text.size() - bytes))) break;
    text.remove_suffix(bytes);
  }
  return text;
}

std::vector<std::string> split_by_space(std::string_view text, int64_t most) {
  std::vector<std::string> parts;
  for (text = strip(text, Side::kLeft); !text.empty(); text = strip(text, Side::kLeft)) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(text);
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

std::vector<std::string> split_by_space_from_right(std::string_view text, int64_t most) {
  std::vector<std::string> parts;
  for (text = strip(text, Side::kRight); !text.empty(); text = strip(text, Side::kRight)) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t bytes = last_character(text.substr(0, begin));
      if (is_python_space(utf8::first_character(text.substr(begin - bytes)).code)) break;
      begin -= bytes;
    }
    parts.emplace_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_by(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t end = find_text(text, separator, at);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

std::vector<std::string> split_by_from_right(std::string_view text, std::string_view separator,
                                             int64_t most) {
  const std::string backward(text.rbegin(), text.rend()), by(separator.rbegin(), separator.rend());
  std::vector<std::string> parts = split_by(backward, by, most);
  for (std::string& part : parts) std::ranges::reverse(part);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::Character next = utf8::first_character(text.substr(at));
    const size_t bytes = text.substr(at, 2) == "\r\n" ? 2 : next.bytes;
    if (ends_line(next.code)) {
      lines.emplace_back(text.substr(begin, at - begin + (keep_ends ? bytes : 0)));
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
    // An empty text occurs before every character and at the end.
    const size_t from = what.empty() && done > 0 ? at + utf8::first_character(text.substr(at)).bytes : at;
    const size_t found = find_text(text, what, from);
    if (found == std::string_view::npos) break;
    replace_here(found);
    at = found + what.size();
    if (what.empty() && at == text.size()) break;
  }
  check(result.size() + (text.size() - at));
  return result.append(text.substr(at));
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
