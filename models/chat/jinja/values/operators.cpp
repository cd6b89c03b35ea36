#include "models/chat/jinja/values/operators.h"

#include <algorithm>

#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

bool equal_items(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::ranges::equal(a, b, [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

const Value* find_in(Budget& budget, const Dict& dict, const Value& key) {
  if (key.text()) return dict.find(*key.text());
  const Value* found = nullptr;
  for (const auto& [name, item] : dict.entries)
    if (!name.text() && equal(budget, name, key)) found = &item;
  return found;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  return a.entries.size() == b.entries.size() && std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* found = find_in(budget, b, entry.first);
           return found && equal(budget, entry.second, *found);
         });
}

bool equal_numbers(const Value& a, const Value& b) {
  const auto left = whole_number(a), right = whole_number(b);
  return left && right ? *left == *right : number_in(a, "==") == number_in(b, "==");
}

std::optional<Value> at_index(const std::vector<Value>& items, int64_t index) {
  const auto size = static_cast<int64_t>(items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  return items[static_cast<size_t>(index)];
}

std::optional<Value> character_at(const std::string& text, int64_t index) {
  const std::vector<uint32_t> all = characters(text);
  const auto size = static_cast<int64_t>(all.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  return Value(text_of({all[static_cast<size_t>(index)]}));
}

// One end of a slice of `size` items, as Python's slice.indices() has it.
int64_t bound(const Value& given, int64_t size, int64_t otherwise, bool backward) {
  const int64_t least = backward ? -1 : 0, most = backward ? size - 1 : size;
  if (given.is_none()) return otherwise;
  int64_t at = integer_in(given, "a slice");
  if (at < 0) at = at < -size ? least : at + size;
  return std::clamp(at, least, std::max(least, most));
}

template <class T>
std::vector<T> sliced(const std::vector<T>& all, const Value& start, const Value& stop, int64_t step) {
  const auto size = static_cast<int64_t>(all.size());
  const bool backward = step < 0;
  const int64_t first = bound(start, size, backward ? size - 1 : 0, backward),
                last = bound(stop, size, backward ? -1 : size, backward);
  std::vector<T> items;
  if (backward)
    for (int64_t i = first; i > last; i = step < last - i ? last : i + step)
      items.push_back(all[static_cast<size_t>(i)]);
  else
    for (int64_t i = first; i<last; i = step> last - i ? last : i + step)
      items.push_back(all[static_cast<size_t>(i)]);
  return items;
}

}  // namespace

std::optional<int64_t> whole_number(const Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer;
  return {};
}

bool are_alike(const Value& a, const Value& b) {
  return a.sequence() && b.sequence() && a.sequence()->kind == b.sequence()->kind &&
         a.sequence()->has_numbers();
}

void fail_operands(const char* sign, const Value& a, const Value& b) {
  defined(a);
  defined(b);
  fail("{} does not take {} and {}", sign, type_name(a), type_name(b));
}

double number_in(const Value& value, std::string_view what) {
  if (const auto integer = whole_number(value)) return static_cast<double>(*integer);
  if (!value.real()) fail_type(what, "a number", value);
  return *value.real();
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step(std::min(size_of(a), size_of(b)));
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.data().index() != b.data().index()) return false;
  if (a.sequence())
    return a.sequence()->kind == b.sequence()->kind &&
           equal_items(budget, a.sequence()->items, b.sequence()->items);
  if (a.dict()) return equal_dicts(budget, *a.dict(), *b.dict());
  if (a.space()) return a.space() == b.space();
  return a.loop() == b.loop() && a.callable() == b.callable();
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step(std::min(size_of(a), size_of(b)));
  const auto left = whole_number(a), right = whole_number(b);
  if (left && right) return *left < *right;
  if (a.is_number() && b.is_number()) return number_in(a, "<") < number_in(b, "<");
  if (a.text() && b.text())
    return *a.text() < *b.text();  // bytes of UTF-8 are in the order of their characters
  if (!are_alike(a, b)) fail_operands("<", a, b);
  const auto &x = a.sequence()->items, &y = b.sequence()->items;
  const auto [i, j] =
      std::ranges::mismatch(x, y, [&](const Value& p, const Value& q) { return equal(budget, p, q); });
  return j != y.end() && (i == x.end() || less(budget, *i, *j));
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  budget.step(size_of(container));
  if (container.is_undefined()) return false;
  if (const std::string* text = container.text())
    return text->find(text_in(item, "'in' with a str")) != std::string::npos;
  if (container.dict()) return find_item(container, item).has_value();
  if (!container.sequence()) fail_type("'in'", "a list, a mapping or a str", container);
  const auto& items = container.sequence()->items;
  return std::ranges::any_of(items, [&](const Value& one) { return equal(budget, one, item); });
}

bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEqual:
      return equal(budget, a, b);
    case CompareOp::kNotEqual:
      return !equal(budget, a, b);
    case CompareOp::kLess:
      return less(budget, a, b);
    case CompareOp::kGreater:
      return less(budget, b, a);
    case CompareOp::kLessEqual:
      return less(budget, a, b) || equal(budget, a, b);
    case CompareOp::kGreaterEqual:
      return less(budget, b, a) || equal(budget, a, b);
    case CompareOp::kIn:
      return contains(budget, b, a);
    case CompareOp::kNotIn:
      break;
  }
  return !contains(budget, b, a);
}

int64_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const std::string* text = value.text()) return length_of(*text);
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const Loop* loop = value.loop()) return static_cast<int64_t>(loop->items.size());
  if (!value.sequence() || value.sequence()->kind == SequenceKind::kGenerator)
    fail_type("length", "a list, a mapping or a str", value);
  return static_cast<int64_t>(value.sequence()->items.size());
}

std::vector<Value> items_of(Budget& budget, const Value& value) {
  budget.step(size_of(value));
  if (value.is_undefined()) return {};
  if (const Sequence* sequence = value.sequence()) return sequence->items;
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries) items.push_back(key);
  } else if (const std::string* text = value.text()) {
    budget.make(text->size() * sizeof(Value));
    for (const uint32_t code : characters(*text)) items.emplace_back(text_of({code}));
  } else {
    fail("a {} has no items to go over", type_name(value));
  }
  return items;
}

std::optional<Value> find_item(const Value& container, const Value& key) {
  if (const Dict* dict = container.dict()) {
    Budget any({});
    const Value* found = find_in(any, *dict, key);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto index = whole_number(key);
  if (!index) return {};
  if (container.sequence() && container.sequence()->has_numbers())
    return at_index(container.sequence()->items, *index);
  return container.text() ? character_at(*container.text(), *index) : std::nullopt;
}

Value slice(Budget& budget, const Value& container, const Value& start, const Value& stop,
            const Value& step) {
  const int64_t by = step.is_none() ? 1 : integer_in(step, "a slice");
  if (by == 0) fail("the step of a slice is 0");
  budget.make(size_of(container));
  if (const std::string* text = container.text()) return text_of(sliced(characters(*text), start, stop, by));
  if (!are_alike(container, container)) fail_type("a slice", "a list or a str", container);
  std::vector<Value> items = sliced(container.sequence()->items, start, stop, by);
  return Value::sequence(std::move(items), container.sequence()->kind);
}

}  // namespace genesis::jinja
