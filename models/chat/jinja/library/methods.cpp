#include "models/chat/jinja/library/library.h"

#include <algorithm>

#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

using Methods = std::remove_cvref_t<decltype(text_methods())>;

Value entries(Rendering& i, const Value& self, Arguments& a) {
  return Value::view(i.filter("items", self, a).sequence()->items, "dict_items");
}

Value keys(Rendering& i, const Value& self, Arguments&) {
  return Value::view(sequence_of(i.budget(), self)->items, "dict_keys");
}

Value values(Rendering& i, const Value& self, Arguments&) {
  i.budget().make_items(self.dict()->size());
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) items.push_back(value);
  return Value::view(std::move(items), "dict_values");
}

Value get(Rendering& i, const Value& self, Arguments& a) {
  const Value key = a.need("key");
  Value otherwise = a.take("default", None{});
  return find_item(i.budget(), self, key).value_or(std::move(otherwise));
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
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t start = place(a.take_index("start").value_or(0)),
                stop = place(a.take_index("stop").value_or(size));
  for (int64_t at = start; at < stop; ++at)
    if (equal(i.budget(), items[static_cast<size_t>(at)], item)) return at;
  fail("index: the value is not in the list");
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

// Returns true at the first call, and if the arguments differ from those of the previous call in this loop.
Value has_changed(Rendering& i, const Value& self, Arguments& a) {
  std::vector<Value> values = a.take_positional();
  auto& last = *self.loop()->last_changed;
  if (last && std::ranges::equal(*last, values,
                                 [&](const Value& x, const Value& y) { return equal(i.budget(), x, y); }))
    return false;
  last = std::move(values);
  return true;
}

Value cycle(Rendering&, const Value& self, Arguments& a) {
  const std::vector<Value> items = a.take_positional();
  if (items.empty()) fail("loop.cycle needs items to go through");
  return items[self.loop()->index % items.size()];
}

const Methods& loop_methods() {
  static const Methods kMethods = {{"changed", has_changed}, {"cycle", cycle}};
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
