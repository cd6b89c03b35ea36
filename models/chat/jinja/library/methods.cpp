#include "models/chat/jinja/library/library.h"

#include <algorithm>

#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

using Method = Value (*)(Rendering& i, const Value& self, Arguments& a);
using Methods = std::map<std::string, Method, std::less<>>;

Value list_of(std::vector<std::string> texts) {
  std::vector<Value> items;
  for (std::string& text : texts) items.emplace_back(std::move(text));
  return Value::list(std::move(items));
}

template <Side side>
Value stripped(Rendering&, const Value& self, Arguments& a) {
  const Value unwanted = a.take("chars", None{});
  return strip(*self.text(), side,
               unwanted.is_none() ? std::nullopt : std::optional(text_in(unwanted, a.function())));
}

template <bool from_right>
Value split(Rendering& i, const Value& self, Arguments& a) {
  const Value separator = a.take("sep", None{});
  const int64_t most = a.take_integer("maxsplit", -1);
  i.budget().make(self.text()->size() * 4);
  if (separator.is_none()) {
    if (from_right && most >= 0) fail("rsplit takes a separator where it takes a number of cuts");
    return list_of(split_by_space(*self.text(), most));
  }
  const std::string& by = text_in(separator, a.function());
  if (by.empty()) fail("{} got an empty separator", a.function());
  return list_of((from_right ? split_by_from_right : split_by)(*self.text(), by, most));
}

Value lines(Rendering& i, const Value& self, Arguments&) {
  i.budget().make(self.text()->size() * 4);
  return list_of(split_lines(*self.text()));
}

// Whether it is one of the texts of a tuple, or the one text.
template <bool at_end>
Value has_affix(Rendering&, const Value& self, Arguments& a) {
  const Value affix = a.need("affix");
  const auto has = [&](const Value& one) {
    const std::string& text = text_in(one, a.function());
    return at_end ? self.text()->ends_with(text) : self.text()->starts_with(text);
  };
  if (!affix.sequence() || affix.sequence()->kind != SequenceKind::kTuple) return has(affix);
  return std::ranges::any_of(affix.sequence()->items, has);
}

template <bool at_end>
Value without_affix(Rendering&, const Value& self, Arguments& a) {
  const std::string affix = a.need_text("affix");
  std::string_view text = *self.text();
  if (at_end ? text.ends_with(affix) : text.starts_with(affix))
    at_end ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  return text;
}

template <std::string (*change)(std::string_view)>
Value changed(Rendering&, const Value& self, Arguments&) {
  return change(*self.text());
}

Value with_replacements(Rendering& i, const Value& self, Arguments& a) {
  const std::string what = a.need_text("old"), by = a.need_text("new");
  return replaced(*self.text(), what, by, a.take_integer("count", -1),
                  [&](size_t bytes) { i.budget().check_text(bytes); });
}

template <bool from_right>
Value found_at(Rendering&, const Value& self, Arguments& a) {
  const std::string what = a.need_text("sub");
  const size_t at = from_right ? self.text()->rfind(what) : self.text()->find(what);
  return at == std::string::npos ? int64_t{-1} : length_of(std::string_view(*self.text()).substr(0, at));
}

Value count_of_text(Rendering&, const Value& self, Arguments& a) {
  const std::string what = a.need_text("sub");
  if (what.empty()) return length_of(*self.text()) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = self.text()->find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

Value join(Rendering& i, const Value& self, Arguments& a) {
  const Value items = a.need("iterable");
  for (const Value& item : items_of(i.budget(), items)) text_in(item, "join");
  Arguments between("join", {self}, {});
  return i.filter("join", items, between);
}

template <bool (*is)(uint32_t)>
Value all_are(Rendering&, const Value& self, Arguments&) {
  const std::vector<uint32_t> all = characters(*self.text());
  return !all.empty() && std::ranges::all_of(all, is);
}

bool is_letter_or_decimal(uint32_t code) { return is_letter(code) || is_decimal(code); }

template <bool (*is)(std::string_view)>
Value text_is(Rendering&, const Value& self, Arguments&) {
  return is(*self.text());
}

Value partition(Rendering&, const Value& self, Arguments& a) {
  const std::string by = a.need_text("sep");
  const size_t at = by.empty() ? std::string::npos : self.text()->find(by);
  if (at == std::string::npos) return Value::tuple({self, "", ""});
  return Value::tuple({self.text()->substr(0, at), by, self.text()->substr(at + by.size())});
}

Value formatted(Rendering& i, const Value& self, Arguments& a) {
  const std::vector<Value> positional = a.take_positional();
  return format_text(i, *self.text(), positional, a.take_named());
}

const Methods& text_methods() {
  static const Methods kMethods = {{"capitalize", changed<capitalized>},
                                   {"count", count_of_text},
                                   {"endswith", has_affix<true>},
                                   {"find", found_at<false>},
                                   {"format", formatted},
                                   {"isalnum", all_are<is_letter_or_decimal>},
                                   {"isalpha", all_are<is_letter>},
                                   {"isdecimal", all_are<is_decimal>},
                                   {"isdigit", all_are<is_decimal>},
                                   {"islower", text_is<is_lower>},
                                   {"isspace", all_are<is_python_space>},
                                   {"isupper", text_is<is_upper>},
                                   {"join", join},
                                   {"lower", changed<lower>},
                                   {"lstrip", stripped<Side::kLeft>},
                                   {"partition", partition},
                                   {"removeprefix", without_affix<false>},
                                   {"removesuffix", without_affix<true>},
                                   {"replace", with_replacements},
                                   {"rfind", found_at<true>},
                                   {"rsplit", split<true>},
                                   {"rstrip", stripped<Side::kRight>},
                                   {"split", split<false>},
                                   {"splitlines", lines},
                                   {"startswith", has_affix<false>},
                                   {"strip", stripped<Side::kBoth>},
                                   {"title", changed<title>},
                                   {"upper", changed<upper>}};
  return kMethods;
}

Value entries(Rendering& i, const Value& self, Arguments& a) {
  return Value::view(i.filter("items", self, a).sequence()->items);
}

Value keys(Rendering& i, const Value& self, Arguments&) { return Value::view(items_of(i.budget(), self)); }

Value values(Rendering&, const Value& self, Arguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) items.push_back(value);
  return Value::view(std::move(items));
}

Value get(Rendering&, const Value& self, Arguments& a) {
  const Value key = a.need("key");
  Value otherwise = a.take("default", None{});
  return find_item(self, key).value_or(std::move(otherwise));
}

Value copy(Rendering&, const Value& self, Arguments&) { return self; }

const Methods& dict_methods() {
  static const Methods kMethods = {
      {"copy", copy}, {"get", get}, {"items", entries}, {"keys", keys}, {"values", values}};
  return kMethods;
}

Value index_of(Rendering& i, const Value& self, Arguments& a) {
  const Value item = a.need("value");
  const std::vector<Value>& items = self.sequence()->items;
  const auto found =
      std::ranges::find_if(items, [&](const Value& one) { return equal(i.budget(), one, item); });
  if (found == items.end()) fail("index: the value is not in the list");
  return int64_t{found - items.begin()};
}

Value count_of_items(Rendering& i, const Value& self, Arguments& a) {
  const Value item = a.need("value");
  const std::vector<Value>& items = self.sequence()->items;
  return int64_t{
      std::ranges::count_if(items, [&](const Value& one) { return equal(i.budget(), one, item); })};
}

const Methods& list_methods() {
  static const Methods kMethods = {{"copy", copy}, {"count", count_of_items}, {"index", index_of}};
  return kMethods;
}

Value cycle(Rendering&, const Value& self, Arguments& a) {
  const std::vector<Value> items = a.take_positional();
  if (items.empty()) fail("loop.cycle needs items to go through");
  return items[self.loop()->index % items.size()];
}

const Methods& loop_methods() {
  static const Methods kMethods = {{"cycle", cycle}};
  return kMethods;
}

const Methods* methods_of(const Value& object) {
  if (object.text()) return &text_methods();
  if (object.dict()) return &dict_methods();
  if (object.sequence() && object.sequence()->has_numbers()) return &list_methods();
  return object.loop() ? &loop_methods() : nullptr;
}

}  // namespace

std::optional<Value> find_method(Rendering& rendering, const Value& object, std::string_view name) {
  const Methods* methods = methods_of(object);
  const auto found = methods ? methods->find(name) : Methods::const_iterator();
  if (!methods || found == methods->end()) return {};
  const auto call = [&rendering, object, method = found->second](Arguments& a) {
    Value result = method(rendering, object, a);
    return object.is_markup() && result.text() ? Value::markup(*result.text()) : result;
  };
  return Value(std::make_shared<const Callable>(Callable{found->first, call, depth_of(object) + 1}));
}

}  // namespace genesis::jinja
