// Parses a number from a text that a person or a file gave: flags, settings, text formats. The whole text must be the number, and
// the type must be able to hold it: no spaces, no "5x", no "1e3" for an integer, no NaN and no infinity.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>

namespace genesis {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace genesis
