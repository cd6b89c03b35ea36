// Filters from text to text. Other values are converted to text first, as in Jinja.
#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

template <std::string (*change)(std::string_view)>
Value changed(Rendering& i, const Value& input, Arguments&) {
  std::string text = to_text(i.budget(), input);
  i.budget().characters(text.size());
  text = change(text);
  i.budget().make(text.size());
  return input.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

Value trimmed(Rendering& i, const Value& input, Arguments& a) {
  const Value unwanted = a.take("chars", None{});
  const std::string text = to_text(i.budget(), input);
  i.budget().characters(text.size() + size_of(unwanted));
  return strip(text, Side::kBoth,
               unwanted.is_none() ? std::nullopt : std::optional(text_in(unwanted, "trim")));
}

Value with_replacements(Rendering& i, const Value& input, Arguments& a) {
  const std::string what = to_text(i.budget(), a.need("old")), by = to_text(i.budget(), a.need("new"));
  const auto most = a.take_index("count");
  const std::string text = to_text(i.budget(), input);
  i.budget().search(text.size(), what.size());
  std::string result =
      replaced(text, what, by, most.value_or(-1), [&](size_t bytes) { i.budget().check_text(bytes); });
  i.budget().make(result.size());
  return result;
}

Value joined(Rendering& i, const Value& input, Arguments& a) {
  const std::string between = to_text(i.budget(), a.take("d", ""));
  const Value attribute = a.take("attribute", None{});
  std::string text;
  const auto sequence = sequence_of(i.budget(), input);
  const std::vector<Value>& items = sequence->items;
  for (size_t at = 0; at < items.size(); ++at) {
    if (at > 0) text += between;
    text += to_text(i.budget(), attribute.is_none() ? items[at] : path_in(i, items[at], attribute));
    i.budget().read(between.size());
    i.budget().check_text(text.size());
  }
  i.budget().make(text.size());
  return text;
}

// Indents all lines but the first, and empty lines only if `blank` is set.
Value indented(Rendering& i, const Value& input, Arguments& a) {
  const Value width = a.take("width", int64_t{4});
  const bool first = a.take_flag("first", false), blank = a.take_flag("blank", false);
  const std::string indentation =
      width.text()
          ? *width.text()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(integer_in(width, "indent"), 0, 1000)), ' ');
  const std::string whole = text_in(input, "indent") + "\n";
  i.budget().characters(whole.size());
  const std::vector<std::string> lines = split_lines(whole);
  i.budget().make_items(3 * lines.size());
  std::string text;
  for (size_t at = 0; at < lines.size(); ++at) {
    if (at > 0) text += '\n';
    if (at == 0 ? first : blank || !lines[at].empty()) text += indentation;
    text += lines[at];
    i.budget().read(indentation.size());
    i.budget().check_text(text.size());
  }
  i.budget().make(text.size());
  return text;
}

Value escaped(Rendering& i, const Value& input, Arguments&) {
  return input.is_markup() ? input : Value::markup(escaped_html(to_text(i.budget(), input)));
}

}  // namespace

const Filters& text_filters() {
  static const Filters kFilters = {{"capitalize", changed<capitalized>},
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
