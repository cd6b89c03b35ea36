#include "models/chat/jinja/library/library.h"

#include <algorithm>

#include "models/chat/jinja/values/write_value.h"
#include "schema/core/parse_number.h"

namespace genesis::jinja {
namespace {

const Value& argument(const std::string& field, size_t& next, const std::vector<Value>& positional,
                      const std::vector<std::pair<std::string, Value>>& named) {
  const auto index =
      field.empty() ? std::optional(static_cast<int64_t>(next++)) : parse_number<int64_t>(field);
  if (index) {
    if (*index < 0 || *index >= static_cast<int64_t>(positional.size()))
      fail("format has no argument {}", *index);
    return positional[static_cast<size_t>(*index)];
  }
  const auto found = std::ranges::find_if(named, [&](const auto& one) { return one.first == field; });
  if (found == named.end())
    fail("format has no argument '{}': only {{}}, {{0}} and {{name}} are supported", field);
  return found->second;
}

}  // namespace

std::string format_text(Rendering& rendering, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named) {
  std::string text;
  size_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      text += c;
    } else if (at + 1 < format.size() && format[at + 1] == c) {
      text += format[at++];
    } else {
      const size_t end = c == '{' ? format.find('}', at) : std::string_view::npos;
      if (end == std::string_view::npos) fail("format: a single '{}'", c);
      text += to_text(rendering.budget(),
                      argument(std::string(format.substr(at + 1, end - at - 1)), next, positional, named));
      rendering.budget().check_text(text.size());
      at = end;
    }
  }
  return text;
}

}  // namespace genesis::jinja
