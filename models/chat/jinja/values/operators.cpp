#include "models/chat/jinja/values/operators.h"

#include <algorithm>
#include <cmath>

#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

bool equal_items(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::ranges::equal(a, b, [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  return a.size() == b.size() && std::ranges::all_of(a.entries(), [&](const auto& entry) {
           const Value* found = b.find_key(entry.first);
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

std::optional<Value> character_at(Budget& budget, const std::string& text, int64_t index) {
  budget.read(text.size());
  if (index < 0) index += length_of(text);
  if (index < 0 || static_cast<size_t>(index) >= text.size()) return {};
  const std::string_view rest = std::string_view(text).substr(byte_of(text, index));
  if (rest.empty()) return {};
  return Value(rest.substr(0, utf8::first_character(rest).bytes));
}

// Returns one bound of a slice of `size` items, like Python's slice.indices().
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

// Returns the label of a slice of a range, which is a range, too.
std::string label_of_range(const std::vector<Value>& items) {
  if (items.empty()) return "range(0, 0)";
  const int64_t first = *items[0].integer(), step = items.size() > 1 ? *items[1].integer() - first : 1,
                last = *items.back().integer();
  return step == 1 ? fmt::format("range({}, {})", first, last + 1)
                   : fmt::format("range({}, {}, {})", first, last + step, step);
}

}  // namespace

std::optional<int64_t> whole_number(const Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer;
  return {};
}

int64_t whole_part(double value) {
  if (!(std::fabs(value) < 9.2e18)) fail("{} is no int of 64 bits", float_text(value));
  return static_cast<int64_t>(value);
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
  budget.read(std::min(size_of(a), size_of(b)));
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
  budget.read(std::min(size_of(a), size_of(b)));
  const auto left = whole_number(a), right = whole_number(b);
  if (left && right) return *left < *right;
  if (a.is_number() && b.is_number()) return number_in(a, "<") < number_in(b, "<");
  if (a.text() && b.text())
    return *a.text() < *b.text();  // the byte order of UTF-8 is the order of code points
  if (!are_alike(a, b)) fail_operands("<", a, b);
  const auto &x = a.sequence()->items, &y = b.sequence()->items;
  const auto [i, j] =
      std::ranges::mismatch(x, y, [&](const Value& p, const Value& q) { return equal(budget, p, q); });
  return j != y.end() && (i == x.end() || less(budget, *i, *j));
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (const std::string* text = container.text()) {
    const std::string& what = text_in(item, "'in' with a str");
    budget.search(text->size(), what.size());
    return find_text(*text, what) != std::string::npos;
  }
  if (container.dict()) return find_item(budget, container, item).has_value();
  const auto sequence = sequence_of(budget, container);
  return std::ranges::any_of(sequence->items, [&](const Value& one) { return equal(budget, one, item); });
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
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->size());
  if (const Loop* loop = value.loop()) return static_cast<int64_t>(loop->items().size());
  if (!value.sequence() || value.sequence()->kind == SequenceKind::kGenerator)
    fail_type("length", "a list, a mapping or a str", value);
  return static_cast<int64_t>(value.sequence()->items.size());
}

std::shared_ptr<const Sequence> sequence_of(Budget& budget, const Value& value) {
  budget.step();
  if (auto sequence = value.shared_sequence()) return sequence;
  Sequence made;
  if (const Dict* dict = value.dict()) {
    budget.make_items(dict->size());
    for (const auto& [key, item] : dict->entries()) made.items.push_back(key);
  } else if (const std::string* text = value.text()) {
    const auto count = static_cast<size_t>(length_of(*text));
    budget.make_items(count);
    budget.make(count * kTextBytes);
    for (const uint32_t code : characters(*text)) made.items.emplace_back(text_of({code}));
  } else if (!value.is_undefined()) {
    fail("a {} has no items to go over", type_name(value));
  }
  return std::make_shared<const Sequence>(std::move(made));
}

std::vector<Value> items_of(Budget& budget, const Value& value) {
  const auto sequence = sequence_of(budget, value);
  budget.make_items(sequence->items.size());
  return sequence->items;
}

std::optional<Value> find_item(Budget& budget, const Value& container, const Value& key) {
  if (const Dict* dict = container.dict()) {
    const Value* found = dict->find_key(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto index = whole_number(key);
  if (!index) return {};
  if (container.sequence() && container.sequence()->has_numbers())
    return at_index(container.sequence()->items, *index);
  return container.text() ? character_at(budget, *container.text(), *index) : std::nullopt;
}

Value slice(Budget& budget, const Value& container, const Value& start, const Value& stop,
            const Value& step) {
  const int64_t by = step.is_none() ? 1 : integer_in(step, "a slice");
  if (by == 0) fail("the step of a slice is 0");
  if (const std::string* text = container.text()) {
    budget.characters(text->size());
    budget.make(text->size());
    return text_of(sliced(characters(*text), start, stop, by));
  }
  if (!are_alike(container, container)) fail_type("a slice", "a list or a str", container);
  std::vector<Value> items = sliced(container.sequence()->items, start, stop, by);
  budget.make_items(items.size());
  const SequenceKind kind = container.sequence()->kind;
  std::string label = kind == SequenceKind::kRange ? label_of_range(items) : "";
  return Value::sequence(std::move(items), kind, std::move(label));
}

}  // namespace genesis::jinja
