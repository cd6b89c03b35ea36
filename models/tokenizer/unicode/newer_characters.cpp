#include "models/tokenizer/unicode/newer_characters.h"

#include <algorithm>
#include <bitset>
#include <span>

#include "models/tokenizer/unicode/newer_tables.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr unsigned char kThreeBytes = 0xe0;  // first byte of three; shorter characters are never newer

// Returns the blocks of 256 characters that contain newer ones. Few characters of ordinary texts are in such blocks.
const std::bitset<0x1100>& newer_blocks() {
  static const std::bitset<0x1100> blocks = [] {
    std::bitset<0x1100> found;
    for (const StandIn& row : kStandIns)
      for (uint32_t block = row.first >> 8; block <= row.last >> 8; ++block) found.set(block);
    return found;
  }();
  return blocks;
}

// Returns the characters beyond ASCII that an expression names; anything that looks like a range is taken for one. A false range
// only exempts more characters from replacement.
std::vector<CharacterRange> named_in(std::string_view expression) {
  std::vector<uint32_t> codes;
  for (std::string_view rest = expression; !rest.empty();) {
    const utf8::Character character = utf8::first_character(rest);
    codes.push_back(character.code);
    rest.remove_prefix(character.bytes);
  }
  std::vector<CharacterRange> named;
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool is_range = i + 2 < codes.size() && codes[i + 1] == '-';
    if (const uint32_t last = codes[is_range ? i + 2 : i]; last >= 0x80) named.push_back({codes[i], last});
  }
  return named;
}

bool is_named(const StandIn& row, const std::vector<CharacterRange>& named) {
  return std::ranges::any_of(named, [&](const CharacterRange& range) {
    return (row.first <= range.last && range.first <= row.last) ||
           (range.first <= row.code && row.code <= range.last);
  });
}

}  // namespace

uint32_t stand_in(uint32_t code) {
  const StandIn* row = find_row(std::span<const StandIn>(kStandIns), code);
  return row ? row->code : code;
}

bool has_newer_form(uint32_t code) {
  return find_row(std::span<const CharacterRange>(kNewerForms), code) != nullptr;
}

bool has_newer_compatible_form(uint32_t code) {
  return find_row(std::span<const CharacterRange>(kNewerCompatible), code) != nullptr;
}

bool is_punctuation(uint32_t code) {
  return find_row(std::span<const CharacterRange>(kPunctuation), code) != nullptr;
}

uint32_t newer_lower_case(uint32_t code) {
  const StandIn* row = find_row(std::span<const StandIn>(kNewerLower), code);
  return row ? row->code + (code - row->first) : code;
}

StandIns::StandIns(std::string_view expression) {
  const std::vector<CharacterRange> named = named_in(expression);
  for (const StandIn& row : kStandIns)
    if (!is_named(row, named)) rows_.push_back(row);
}

std::string_view StandIns::in(std::string_view text, std::string& storage) const {
  const std::bitset<0x1100>& blocks = newer_blocks();
  storage.clear();
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < kThreeBytes) {
      ++at;
      continue;
    }
    const auto [code, bytes, valid, cut_short] = utf8::first_character(text.substr(at));
    const StandIn* row = blocks[code >> 8] ? find_row(std::span<const StandIn>(rows_), code) : nullptr;
    if (row) {
      if (storage.empty()) storage = text;
      std::string old;
      utf8::append(old, row->code);
      storage.replace(at, bytes, old);
    }
    at += bytes;
  }
  return storage.empty() ? text : storage;
}

}  // namespace genesis::text
