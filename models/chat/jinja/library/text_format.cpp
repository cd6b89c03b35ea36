#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/format_value.h"
#include "models/chat/jinja/values/write_value.h"
#include "schema/core/parse_number.h"

namespace genesis::jinja {
namespace {

class TextFormatter {
 public:
  TextFormatter(Rendering& rendering, const std::vector<Value>& positional,
                const std::vector<std::pair<std::string, Value>>& named)
      : rendering_(rendering), positional_(positional), named_(named) {}

  // Formats a text. `level` is 1 for a format specification, which may contain fields; their specifications must not.
  std::string run(std::string_view format, int level = 0) {
    if (level > 1) fail("format: fields are nested more than two deep");
    std::string text;
    for (size_t at = 0; at < format.size(); ++at) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        text += c;
      } else if (level == 0 && at + 1 < format.size() && format[at + 1] == c) {
        text += format[at++];
      } else {
        const size_t end = c == '{' ? end_of_field(format, at) : std::string_view::npos;
        if (end == std::string_view::npos) fail("format: a single '{}'", c);
        text += field(format.substr(at + 1, end - at - 1), level);
        rendering_.budget().check_text(text.size());
        at = end;
      }
    }
    rendering_.budget().make(text.size());
    return text;
  }

 private:
  static size_t end_of_field(std::string_view format, size_t begin) {
    int depth = 0;
    for (size_t at = begin; at < format.size(); ++at) {
      if (format[at] == '{') ++depth;
      if (format[at] == '}' && --depth == 0) return at;
    }
    return std::string_view::npos;
  }

  // Formats a field: name!conversion:format.
  std::string field(std::string_view field, int level) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = argument(field.substr(0, name_end));
    field.remove_prefix(name_end);
    if (field.starts_with('!')) {
      if (field.size() < 2 || (field.size() > 2 && field[2] != ':'))
        fail("format: '{}' is no conversion", field);
      value = converted(value, field[1]);
      field.remove_prefix(2);
    }
    const std::string spec = field.empty() ? "" : run(field.substr(1), level + 1);
    if (spec.empty()) return to_text(rendering_.budget(), defined(value));
    return format_value(rendering_.budget(), value, parse_format_spec(spec));
  }

  Value converted(const Value& value, char kind) {
    if (kind == 's') return to_text(rendering_.budget(), value);
    if (kind == 'r') return to_repr(rendering_.budget(), value);
    fail("format: the conversion '!{}' is not supported", kind);
  }

  // Returns the argument that a path names: first.attribute[item].
  Value argument(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(std::string(path.substr(0, end)));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool is_item = path[0] == '[';
      const size_t next = is_item ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (next == std::string_view::npos || next == 1) fail("format: '{}' names nothing", path);
      const std::string name(path.substr(1, next - 1));
      value = is_item ? rendering_.item(value, key(name)) : rendering_.attribute(value, name);
      path.remove_prefix(is_item ? next + 1 : next);
    }
    return value;
  }

  static Value key(const std::string& name) {
    const auto index = name[0] == '-' ? std::nullopt : parse_number<int64_t>(name);
    return index ? Value(*index) : Value(name);
  }

  Value first(const std::string& name) {
    const auto index =
        name.empty() ? std::optional(static_cast<int64_t>(next_++)) : parse_number<int64_t>(name);
    if (index) {
      if (*index < 0 || *index >= static_cast<int64_t>(positional_.size()))
        fail("format has no argument {}", *index);
      return positional_[static_cast<size_t>(*index)];
    }
    const auto found = std::ranges::find_if(named_, [&](const auto& one) { return one.first == name; });
    if (found == named_.end()) fail("format has no argument '{}'", name);
    return found->second;
  }

  Rendering& rendering_;
  const std::vector<Value>& positional_;
  const std::vector<std::pair<std::string, Value>>& named_;
  size_t next_ = 0;
};

}  // namespace

std::string format_text(Rendering& rendering, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named) {
  return TextFormatter(rendering, positional, named).run(format);
}

}  // namespace genesis::jinja
