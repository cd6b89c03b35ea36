// Ranges of numbers that settings accept, and their texts in messages.
#pragma once

#include <fmt/core.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "schema/core/parse_number.h"
#include "schema/core/setting_error.h"

namespace genesis {

template <class T>
struct Range {
  // Real numbers must fit in f32, since most of them are converted to it.
  static constexpr T kLargest = std::is_integral_v<T> ? std::numeric_limits<T>::max()
                                                      : static_cast<T>(std::numeric_limits<float>::max());
  T least = std::numeric_limits<T>::lowest(), most = kLargest;
  bool without_least = false;  // excludes `least` itself

  bool holds(T number) const { return (without_least ? number > least : number >= least) && number <= most; }
  // Returns "a whole number of 0 or more".
  std::string text(bool with_most) const {
    std::string text = std::is_integral_v<T> ? "a whole number" : "a number";
    if (least != std::numeric_limits<T>::lowest() || std::is_unsigned_v<T>)
      text += without_least ? fmt::format(" of more than {}", least) : fmt::format(" of {} or more", least);
    if (with_most || most != kLargest) text += fmt::format(", at most {}", most);
    return text;
  }
};

template <class T>
Range<T> at_least(std::type_identity_t<T> least) {
  return {.least = least};
}

// Parses a number; throws SettingError outside of the range. `name` begins the message: "--size batch=5x: expected
// ...".
template <class T>
T number_or_fail(std::string_view name, std::string_view text, const Range<T>& range = {}) {
  const std::optional<T> number = parse_number<T>(text);
  const bool may_overflow = number ? *number > range.most : text.size() > 8;
  if (!number || !range.holds(*number)) fail_setting("{}: expected {}", name, range.text(may_overflow));
  return *number;
}

}  // namespace genesis
