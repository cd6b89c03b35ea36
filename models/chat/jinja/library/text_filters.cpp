// Filters that make texts of texts. What is no text is written out first, as Jinja does.
#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

template <std::string (*change)(std::string_view)>
Value changed(Rendering& i, const Value& input, Arguments&) {
  std::string text = change(to_text(i.budget(), input));
  return input.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

Value trimmed(Rendering& i, const Value& input, Arguments& a) {
  const Value unwanted = a.take("chars", None{});
  const std::string text = to_text(i.budget(), input);
  return strip(text, Side::kBoth,
               unwanted.is_none() ? std::nullopt : std::optional(text_in(unwanted, "trim")));
}

Value with_replacements(Rendering& i, const Value& input, Arguments& a) {
  const std::string what = to_text(i.budget(), a.need("old")), by = to_text(i.budget(), a.need("new"));
  const Value most = a.take("count", None{});
  return replaced(to_text(i.budget(), input), what, by, most.is_none() ? -1 : integer_in(most, "replace"),
                  [&](size_t bytes) { i.budget().check_text(bytes); });
}

Value joined(Rendering& i, const Value& input, Arguments& a) {
  const std::string between = to_text(i.budget(), a.take("d", ""));
  const Value attribute = a.take("attribute", None{});
  std::string text;
  const std::vector<Value> items = items_of(i.budget(), input);
  for (size_t at = 0; at < items.size(); ++at) {
    if (at > 0) text += between;
    text += to_text(i.budget(), attribute.is_none() ? items[at] : i.item(items[at], attribute));
    i.budget().step(between.size());
    i.budget().check_text(text.size());
  }
  i.budget().make(text.size());
  return text;
}

// All lines but the first get the indentation, and empty ones only where they are asked for.
Value indented(Rendering& i, const Value& input, Arguments& a) {
  const Value width = a.take("width", int64_t{4});
  const bool first = a.take_flag("first", false), blank = a.take_flag("blank", false);
  const std::string indentation =
      width.text()
          ? *width.text()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(integer_in(width, "indent"), 0, 1000)), ' ');
  const std::vector<std::string> lines = split_by(to_text(i.budget(), input) + "\n", "\n", -1);
  std::string text;
  for (size_t at = 0; at + 1 < lines.size(); ++at) {
    if (at > 0) text += '\n';
    if (at == 0 ? first : blank || !lines[at].empty()) text += indentation;
    text += lines[at];
    i.budget().step(indentation.size());
    i.budget().check_text(text.size());
  }
  return text;
}

Value escaped(Rendering& i, const Value& input, Arguments&) {
  return input.is_markup() ? input : Value::markup(escaped_html(to_text(i.budget(), input)));
}

}  // namespace

const std::map<std::string, Filter, std::less<>>& text_filters() {
  static const std::map<std::string, Filter, std::less<>> kFilters = {{"capitalize", changed<capitalized>},
                                                                      {"e", escaped},
                                                                      {"escape", escaped},
                                                                      {"indent", indented},
                                                                      {"join", joined},
                                                                      {"lower", changed<lower>},
                                                                      {"replace", with_replacements},
                                                                      {"title", changed<title_of_words>},
                                                                      {"trim", trimmed},
                                                                      {"upper", changed<upper>}};
  return kFilters;
}

}  // namespace genesis::jinja
