// The "precompiled_charsmap" of SentencePiece: texts and their replacements, such as those of NFKC, as a double-array trie
// (Darts-clone) and a list of texts that end with a zero byte. The map comes from a file and is not trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/unicode/grapheme.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {

class CharactersMap {
 public:
  // Takes the bytes of the map. Throws Error if its sizes are inconsistent or its texts are not UTF-8.
  explicit CharactersMap(std::string_view bytes);

  // Calls `on_piece(piece, made)` with the pieces of the text and what becomes of each, in order. Replaces as `tokenizers` does: a grapheme cluster of
  // fewer than 6 bytes becomes the replacement of its shortest prefix in the map; without one, and for longer clusters, this
  // holds for each character of the cluster. `text` must be UTF-8. Throws Error for an offset outside of the map.
  template <class OnPiece>
  void replace(std::string_view text, const OnPiece& on_piece) const {
    constexpr size_t kShortCluster = 6;
    while (!text.empty()) {
      const std::string_view cluster = text.substr(0, first_cluster(text));
      text.remove_prefix(cluster.size());
      const auto whole = cluster.size() < kShortCluster ? replacement(cluster) : std::nullopt;
      if (whole)
        on_piece(cluster, *whole);
      else
        replace_characters(cluster, on_piece);
    }
  }

 private:
  template <class OnPiece>
  void replace_characters(std::string_view cluster, const OnPiece& on_piece) const {
    while (!cluster.empty()) {
      const std::string_view character = cluster.substr(0, utf8::first_character(cluster).bytes);
      cluster.remove_prefix(character.size());
      on_piece(character, replacement(character).value_or(character));
    }
  }

  // Returns the replacement of the shortest prefix of `text` that the map has.
  std::optional<std::string_view> replacement(std::string_view text) const;
  uint32_t unit(size_t at) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

// Decodes base64 (RFC 4648), with or without padding. Returns nothing if `text` is not base64.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace genesis::text
