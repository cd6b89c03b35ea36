// Implements Python's format(value, spec), which str.format uses. The operator % builds such specifications, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// A format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > ^ or =; 0: the default of the type
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // , or _
  std::optional<int64_t> precision = {};
  char type = 0;
};

// Throws Error for an invalid specification.
FormatSpec parse_format_spec(std::string_view spec);
// Throws Error if the specification does not fit the type of the value.
std::string format_value(Budget& budget, const Value& value, const FormatSpec& spec);
std::string format_number(Budget& budget, const Value& value, FormatSpec spec);
std::string format_text_value(Budget& budget, std::string_view text, FormatSpec spec);

}  // namespace genesis::jinja
