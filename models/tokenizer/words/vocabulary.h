// A map from tokens, as the file writes them, to their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace genesis::text {

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
using Vocabulary = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;

// Returns -1 if there is no such token.
inline int64_t id_in(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? -1 : int64_t{found->second};
}

}  // namespace genesis::text
