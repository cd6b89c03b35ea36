#include "models/tokenizer/unicode/characters_map.h"

#include <cstring>

#include "schema/core/error.h"

namespace genesis::text {
namespace {

// The fields of a unit of Darts-clone.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xff); }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
uint32_t value_of(uint32_t unit) { return unit & ~(1u << 31); }

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return number;
}

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

CharactersMap::CharactersMap(std::string_view bytes) {
  if (bytes.size() < 4) fail("its map of characters has {} bytes, expected at least 4", bytes.size());
  const size_t size = number_at(bytes, 0);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    fail("its map of characters begins with a trie of {} bytes, and has {} bytes in all", size, bytes.size());
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(number_at(bytes, at));
  texts_ = bytes.substr(4 + size);
  if (!utf8::is_valid(texts_)) fail("a replacement in its map of characters is not UTF-8");
}

uint32_t CharactersMap::unit(size_t at) const {
  if (at >= units_.size())
    fail("'precompiled_charsmap' of the normalizer refers to unit {} of a trie of {}", at, units_.size());
  return units_[at];
}

std::optional<std::string_view> CharactersMap::replacement(std::string_view text) const {
  size_t at = offset_of(units_[0]);
  for (const char byte : text) {
    const auto label = static_cast<unsigned char>(byte);
    if (label == 0) return std::nullopt;
    at ^= label;
    if (at >= units_.size() || label_of(units_[at]) != label) return std::nullopt;
    const uint32_t found = units_[at];
    at ^= offset_of(found);
    if (!has_leaf(found)) continue;
    const size_t begin = value_of(unit(at));
    const bool is_inside =
        begin <= texts_.size() &&
        (begin == texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xc0) != 0x80);
    if (!is_inside)
      fail("'precompiled_charsmap' of the normalizer has a replacement at byte {} of {}", begin,
           texts_.size());
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

std::optional<std::string> base64_bytes(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t group = 0;
  size_t count = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(digit);
    if (++count % 4 == 1) continue;
    const size_t shift = (4 - count % 4) % 4 * 2;
    bytes += static_cast<char>(group >> shift & 0xff);
  }
  return bytes;
}

}  // namespace genesis::text
