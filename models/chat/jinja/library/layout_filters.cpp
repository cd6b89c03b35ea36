// Filters that format a value for display.
#include <algorithm>
#include <array>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/percent_format.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

Value centered(Rendering& i, const Value& input, Arguments& a) {
  Arguments width("center", {a.take("width", int64_t{80})}, {});
  return text_methods().at("center")(i, to_text(i.budget(), input), width);
}

// Formats with arguments by position, "%s of %s" | format(a, b), or by name, "%(n)s" | format(n=1).
Value formatted(Rendering& i, const Value& input, Arguments& a) {
  const std::vector<Value> positional = a.take_positional();
  const auto named = a.take_named();
  if (!positional.empty() && !named.empty()) fail("format takes arguments by place or by name, not both");
  const Value format = input.text() ? input : Value(to_text(i.budget(), input));
  if (named.empty()) return percent_format(i.budget(), format, Value::tuple(positional));
  Dict values;
  for (const auto& [name, value] : named) values.set(name, value);
  return percent_format(i.budget(), format, Value::dict(std::move(values)));
}

// Shortens a text to `length` characters including `end`, cut between words. Texts that are at most `leeway` characters longer
// stay unchanged.
Value truncated(Rendering& i, const Value& input, Arguments& a) {
  const std::string text = to_text(i.budget(), input);
  const int64_t length = a.take_integer("length", 255);
  const bool cuts_words = a.take_flag("killwords", false);
  const std::string end = text_in(a.take("end", "..."), "truncate");
  const int64_t leeway = a.take_index("leeway").value_or(5), kept = length - length_of(end);
  if (kept < 0) fail("truncate: the end is longer than the length of {}", length);
  if (leeway < 0) fail("truncate: the leeway of {} is negative", leeway);
  i.budget().characters(text.size());
  if (length_of(text) <= length + leeway) return text;
  std::string_view cut = std::string_view(text).substr(0, byte_of(text, kept));
  if (!cuts_words) cut = cut.substr(0, std::min(cut.rfind(' '), cut.size()));
  return std::string(cut) + end;
}

bool is_of_word(uint32_t code) {
  return code == '_' || is_letter(code) || is_digit(code) || is_numeric(code);
}

Value word_count(Rendering& i, const Value& input, Arguments&) {
  const std::string text = to_text(i.budget(), input);
  i.budget().characters(text.size());
  int64_t count = 0;
  bool inside = false;
  for (const uint32_t code : characters(text)) {
    const bool now = is_of_word(code);
    count += now && !inside;
    inside = now;
  }
  return count;
}

Value file_size(Rendering& i, const Value& input, Arguments& a) {
  const bool binary = a.take_flag("binary", false);
  const Value as_float = [&] {
    Arguments none("float");
    return i.filter("float", input, none);
  }();
  const double bytes = number_in(as_float, "filesizeformat"), base = binary ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return fmt::format("{} Bytes", whole_part(bytes));
  static constexpr std::array<const char*, 8> kDecimal = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                              kBinary = {"KiB", "MiB", "GiB", "TiB",
                                                         "PiB", "EiB", "ZiB", "YiB"};
  double unit = base * base;
  size_t at = 0;
  for (; at + 1 < kDecimal.size() && bytes >= unit; ++at) unit *= base;
  return fmt::format("{:.1f} {}", base * bytes / unit, (binary ? kBinary : kDecimal)[at]);
}

std::string url_quoted(Rendering& i, const Value& value, bool in_query) {
  std::string result;
  const std::string text = to_text(i.budget(), value);
  i.budget().characters(text.size());
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query))
      result += c;
    else if (c == ' ' && in_query)
      result += '+';
    else
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

// Encodes a text, or the pairs of a mapping or a list as the query of a URL.
Value url_encoded(Rendering& i, const Value& input, Arguments&) {
  if (!input.dict() && !input.sequence()) return url_quoted(i, input, false);
  std::string text;
  const auto add = [&](const Value& name, const Value& value) {
    text += (text.empty() ? "" : "&") + url_quoted(i, name, true) + "=" + url_quoted(i, value, true);
    i.budget().check_text(text.size());
  };
  if (const Dict* dict = input.dict())
    for (const auto& [name, value] : dict->entries()) add(name, value);
  else
    for (const Value& pair : input.sequence()->items) {
      const auto two = sequence_of(i.budget(), pair);
      if (two->items.size() != 2) fail("urlencode takes pairs, got {} items", two->items.size());
      add(two->items[0], two->items[1]);
    }
  i.budget().make(text.size());
  return text;
}

Value escaped_always(Rendering& i, const Value& input, Arguments&) {
  return Value::markup(escaped_html(to_text(i.budget(), input)));
}

}  // namespace

const Filters& layout_filters() {
  static const Filters kFilters = {
      {"center", centered},     {"filesizeformat", file_size}, {"forceescape", escaped_always},
      {"format", formatted},    {"truncate", truncated},       {"urlencode", url_encoded},
      {"wordcount", word_count}};
  return kFilters;
}

}  // namespace genesis::jinja
