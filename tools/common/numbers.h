// Converts text of the command line to numbers.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "schema/core/parse_number.h"
#include "tools/common/command.h"
#include "tools/common/usage.h"

namespace genesis::tools {

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

// Parses a number; throws UsageError outside of the range. `name` begins the message: "--size batch=5x: expected
// ...".
template <class T>
T number_or_fail(std::string_view name, std::string_view text, const Range<T>& range = {}) {
  const std::optional<T> number = parse_number<T>(text);
  const bool may_overflow = number ? *number > range.most : text.size() > 8;
  if (!number || !range.holds(*number)) fail_usage("{}: expected {}", name, range.text(may_overflow));
  return *number;
}

// Parses "500MB", "8GiB" or a number of bytes, at least 1. `name` is the flag's name.
int64_t bytes_or_fail(std::string_view name, std::string_view text);

// Like app.add_option(names, value, what), for numbers within `range`. The help shows the current value as the
// default.
template <class T>
Option* add_number(Command& app, const std::string& names, T& value, const std::string& what,
                   const Range<T>& range = {}) {
  const std::string name = names.substr(names.rfind(',') == std::string::npos ? 0 : names.rfind(',') + 1);
  const auto read = [&value, name, range](const std::vector<std::string>& words) {
    value = number_or_fail<T>(name + " " + words.back(), words.back(), range);
  };
  return app.add_option(names, read, what)
      ->type_name(std::is_integral_v<T> ? "INT" : "NUMBER")
      ->default_str(fmt::format("{}", value));
}

// Does the same for an option that may be given again.
template <class T>
Option* add_numbers(Command& app, const std::string& name, std::vector<T>& values, const std::string& what,
                    const Range<T>& range = {}) {
  const auto read = [&values, name, range](const std::vector<std::string>& words) {
    values.clear();
    for (const std::string& word : words)
      values.push_back(number_or_fail<T>(fmt::format("{} {}", name, word), word, range));
  };
  return app.add_option(name, read, what)->type_name("INT")->take_all()->allow_extra_args(false);
}

}  // namespace genesis::tools
