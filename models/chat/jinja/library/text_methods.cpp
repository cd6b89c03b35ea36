// Methods of Python's str.
#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/format_value.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

// Makes a list of texts, and charges its memory.
Value list_of(Rendering& i, std::vector<std::string> texts) {
  i.budget().make_items(texts.size());
  std::vector<Value> items;
  for (std::string& text : texts) {
    i.budget().make(text.size() + kTextBytes);
    items.emplace_back(std::move(text));
  }
  return Value::list(std::move(items));
}

// Returns the text, and charges reading it character by character.
const std::string& read(Rendering& i, const Value& self) {
  i.budget().characters(self.text()->size());
  return *self.text();
}

template <Side side>
Value stripped(Rendering& i, const Value& self, Arguments& a) {
  const Value unwanted = a.take("chars", None{});
  if (unwanted.text()) read(i, unwanted);
  return strip(read(i, self), side,
               unwanted.is_none() ? std::nullopt : std::optional(text_in(unwanted, a.function())));
}

template <bool from_right>
Value split(Rendering& i, const Value& self, Arguments& a) {
  const Value separator = a.take("sep", None{});
  const int64_t most = a.take_integer("maxsplit", -1);
  const std::string& text = read(i, self);
  if (separator.is_none())
    return list_of(i, (from_right ? split_by_space_from_right : split_by_space)(text, most));
  const std::string& by = text_in(separator, a.function());
  if (by.empty()) fail("{} got an empty separator", a.function());
  i.budget().search(text.size(), by.size());
  return list_of(i, (from_right ? split_by_from_right : split_by)(text, by, most));
}

Value lines(Rendering& i, const Value& self, Arguments& a) {
  return list_of(i, split_lines(read(i, self), a.take_flag("keepends", false)));
}

// The slice of a text between the arguments `start` and `end` of Python's methods.
struct Window {
  std::string_view text;
  size_t first_byte = 0;
  bool is_valid = true;  // false if it begins behind the end of the text: then it does not even contain an empty text
};

Window window_of(Rendering& i, const Value& self, Arguments& a) {
  const std::string_view text = *self.text();
  const auto start = a.take_index("start"), end = a.take_index("end");
  if (!start && !end) return {text};
  i.budget().read(text.size());
  const int64_t size = length_of(text);
  const auto place = [&](int64_t at) { return std::max<int64_t>(at < 0 ? at + size : at, 0); };
  const int64_t first = place(start.value_or(0)), last = std::min(place(end.value_or(size)), size);
  if (first > last) return {{}, 0, false};
  const size_t begin = byte_of(text, first);
  return {text.substr(begin, byte_of(text, last) - begin), begin};
}

// Implements startswith and endswith. The affix is a text, or a tuple of which any text may match.
template <bool at_end>
Value has_affix(Rendering& i, const Value& self, Arguments& a) {
  const Value affix = a.need("affix");
  const Window window = window_of(i, self, a);
  const auto has = [&](const Value& one) {
    const std::string& text = text_in(one, a.function());
    i.budget().read(text.size());
    return window.is_valid && (at_end ? window.text.ends_with(text) : window.text.starts_with(text));
  };
  if (!is_tuple(affix)) return has(affix);
  return std::ranges::any_of(affix.sequence()->items, has);
}

template <bool at_end>
Value without_affix(Rendering& i, const Value& self, Arguments& a) {
  const std::string affix = a.need_text("affix");
  std::string_view text = *self.text();
  i.budget().make(text.size());
  if (at_end ? text.ends_with(affix) : text.starts_with(affix))
    at_end ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  return text;
}

template <std::string (*change)(std::string_view)>
Value changed(Rendering& i, const Value& self, Arguments&) {
  std::string text = change(read(i, self));
  i.budget().make(text.size());
  return text;
}

Value with_replacements(Rendering& i, const Value& self, Arguments& a) {
  const std::string what = a.need_text("old"), by = a.need_text("new");
  i.budget().search(self.text()->size(), what.size());
  std::string text = replaced(*self.text(), what, by, a.take_integer("count", -1),
                              [&](size_t bytes) { i.budget().check_text(bytes); });
  i.budget().make(text.size());
  return text;
}

// Returns the index of the character where a text begins, or -1.
template <bool from_right>
int64_t place_of(Rendering& i, const Value& self, Arguments& a) {
  const std::string what = a.need_text("sub");
  const Window window = window_of(i, self, a);
  if (!window.is_valid) return -1;
  i.budget().search(window.text.size(), what.size());
  const size_t at = from_right ? rfind_text(window.text, what) : find_text(window.text, what);
  if (at == std::string::npos) return -1;
  return length_of(std::string_view(*self.text()).substr(0, window.first_byte + at));
}

template <bool from_right>
Value found_at(Rendering& i, const Value& self, Arguments& a) {
  return place_of<from_right>(i, self, a);
}

template <bool from_right>
Value index_of(Rendering& i, const Value& self, Arguments& a) {
  const int64_t at = place_of<from_right>(i, self, a);
  if (at < 0) fail("{}: the text is not found", a.function());
  return at;
}

Value count_of_text(Rendering& i, const Value& self, Arguments& a) {
  const std::string what = a.need_text("sub");
  const Window window = window_of(i, self, a);
  if (!window.is_valid) return int64_t{0};
  i.budget().search(window.text.size(), what.size());
  if (what.empty()) return length_of(window.text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = find_text(window.text, what, at)) != std::string::npos; at += what.size())
    ++count;
  return count;
}

Value join(Rendering& i, const Value& self, Arguments& a) {
  const Value items = a.need("iterable");
  const auto sequence = sequence_of(i.budget(), items);
  for (const Value& item : sequence->items) text_in(item, "join");
  Arguments between("join", {self}, {});
  return i.filter("join", items, between);
}

template <bool (*is)(uint32_t)>
Value all_are(Rendering& i, const Value& self, Arguments&) {
  const std::vector<uint32_t> all = characters(read(i, self));
  return !all.empty() && std::ranges::all_of(all, is);
}

// Does the same as all_are(), but returns true for an empty text.
template <bool (*is)(uint32_t)>
Value none_is_not(Rendering& i, const Value& self, Arguments&) {
  return std::ranges::all_of(characters(read(i, self)), is);
}

bool is_letter_or_number(uint32_t code) { return is_letter(code) || is_digit(code) || is_numeric(code); }
bool is_ascii(uint32_t code) { return code < 0x80; }

template <bool (*is)(std::string_view)>
Value text_is(Rendering& i, const Value& self, Arguments&) {
  return is(read(i, self));
}

template <bool from_right>
Value partition(Rendering& i, const Value& self, Arguments& a) {
  const std::string by = a.need_text("sep");
  if (by.empty()) fail("{} got an empty separator", a.function());
  const std::string& text = *self.text();
  i.budget().search(text.size(), by.size());
  i.budget().make(text.size() + by.size() + 3 * kTextBytes);
  const size_t at = from_right ? rfind_text(text, by) : find_text(text, by);
  if (at == std::string::npos)
    return from_right ? Value::tuple({"", "", self}) : Value::tuple({self, "", ""});
  return Value::tuple({text.substr(0, at), by, text.substr(at + by.size())});
}

Value formatted(Rendering& i, const Value& self, Arguments& a) {
  const std::vector<Value> positional = a.take_positional();
  return format_text(i, *self.text(), positional, a.take_named());
}

// Implements ljust, rjust and center.
template <char align>
Value aligned(Rendering& i, const Value& self, Arguments& a) {
  FormatSpec spec;
  spec.width = integer_in(a.need("width"), a.function());
  spec.fill = text_in(a.take("fillchar", " "), a.function());
  if (length_of(spec.fill) != 1)
    fail("{} fills with one character, got {}", a.function(), length_of(spec.fill));
  spec.align = align;
  const int64_t missing = spec.width - length_of(read(i, self));
  // Python's center puts the odd fill character on the left if the width is odd.
  if (align == '^' && missing > 0 && missing % 2 == 1 && spec.width % 2 == 1) {
    FormatSpec left = spec;
    left.align = '>', left.width = spec.width - missing / 2;
    spec.align = '<';
    return format_text_value(i.budget(), format_text_value(i.budget(), *self.text(), left), spec);
  }
  return format_text_value(i.budget(), *self.text(), spec);
}

Value zero_filled(Rendering& i, const Value& self, Arguments& a) {
  FormatSpec spec;
  spec.width = integer_in(a.need("width"), "zfill");
  const std::string& text = read(i, self);
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  spec.fill = "0", spec.align = '>';
  spec.width -= has_sign;
  return text.substr(0, has_sign) + format_text_value(i.budget(), text.substr(has_sign), spec);
}

Value with_spaces(Rendering& i, const Value& self, Arguments& a) {
  const int64_t size = std::clamp<int64_t>(a.take_integer("tabsize", 8), 0, 1 << 16);
  std::string text;
  int64_t column = 0;
  for (const uint32_t code : characters(read(i, self))) {
    if (code != '\t') {
      text += text_of({code});
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    } else if (size > 0) {
      const int64_t spaces = size - column % size;
      i.budget().read(static_cast<size_t>(spaces));
      i.budget().check_text(text.size() + static_cast<size_t>(spaces));
      text.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    }
  }
  i.budget().make(text.size());
  return text;
}

}  // namespace

const std::map<std::string, Value (*)(Rendering&, const Value&, Arguments&), std::less<>>& text_methods() {
  static const std::remove_cvref_t<decltype(text_methods())> kMethods = {
      {"capitalize", changed<capitalized>}, {"casefold", changed<folded>},
      {"center", aligned<'^'>}, {"count", count_of_text},
      {"endswith", has_affix<true>}, {"expandtabs", with_spaces},
      {"find", found_at<false>}, {"format", formatted},
      {"index", index_of<false>}, {"isalnum", all_are<is_letter_or_number>},
      {"isalpha", all_are<is_letter>}, {"isascii", none_is_not<is_ascii>},
      {"isdecimal", all_are<is_decimal>}, {"isdigit", all_are<is_digit>},
      {"islower", text_is<is_lower>}, {"isnumeric", all_are<is_numeric>},
      {"isprintable", none_is_not<is_printable>}, {"isspace", all_are<is_python_space>},
      {"istitle", text_is<is_title>}, {"isupper", text_is<is_upper>},
      {"join", join}, {"ljust", aligned<'<'>},
      {"lower", changed<lower>}, {"lstrip", stripped<Side::kLeft>},
      {"partition", partition<false>}, {"removeprefix", without_affix<false>},
      {"removesuffix", without_affix<true>}, {"replace", with_replacements},
      {"rfind", found_at<true>}, {"rindex", index_of<true>},
      {"rjust", aligned<'>'>}, {"rpartition", partition<true>},
      {"rsplit", split<true>}, {"rstrip", stripped<Side::kRight>},
      {"split", split<false>}, {"splitlines", lines},
      {"startswith", has_affix<false>}, {"strip", stripped<Side::kBoth>},
      {"swapcase", changed<swapped_case>}, {"title", changed<title>},
      {"upper", changed<upper>}, {"zfill", zero_filled}};
  return kMethods;
}

}  // namespace genesis::jinja
