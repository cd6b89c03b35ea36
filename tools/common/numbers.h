// Converts text of the command line to numbers.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "schema/core/byte_size.h"
#include "schema/core/number_range.h"
#include "tools/common/command.h"
#include "tools/common/usage.h"

namespace genesis::tools {

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
