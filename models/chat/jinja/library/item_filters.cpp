// Filters over the items of a value.
#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

Value lower_if_text(Rendering& i, const Value& value) {
  if (!value.text()) return value;
  i.budget().characters(value.text()->size());
  i.budget().make(value.text()->size() + kTextBytes);
  return lower(*value.text());
}

// Computes the key by which sort, unique, min and max compare items.
class Key {
 public:
  Key(Rendering& rendering, Arguments& arguments)
      : rendering_(rendering),
        case_sensitive_(arguments.take_flag("case_sensitive", false)),
        attribute_(arguments.take("attribute", None{})) {}
  Value operator()(const Value& item) const {
    return attribute_.is_none() ? compared(item) : compared(path_in(rendering_, item, attribute_));
  }
  // Returns the keys of several attributes, separated by commas, as a list.
  Value by_all(const Value& item) const {
    if (!attribute_.text()) return (*this)(item);
    std::vector<Value> all;
    for (const std::string& one : split_by(*attribute_.text(), ",", -1))
      all.push_back(compared(path_in(rendering_, item, one)));
    return Value::list(std::move(all));
  }

 private:
  Value compared(const Value& value) const {
    return case_sensitive_ ? value : lower_if_text(rendering_, value);
  }

  Rendering& rendering_;
  bool case_sensitive_;
  Value attribute_;
};

std::vector<Value> sorted(Rendering& i, std::vector<Value> items,
                          const std::function<Value(const Value&)>& key, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) keyed.emplace_back(key(item), std::move(item));
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? less(i.budget(), b.first, a.first) : less(i.budget(), a.first, b.first);
  });
  items.clear();
  for (auto& [k, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value sort(Rendering& i, const Value& input, Arguments& a) {
  const bool reverse = a.take_flag("reverse", false);
  const Key key(i, a);
  return Value::list(sorted(
      i, items_of(i.budget(), input), [&](const Value& item) { return key.by_all(item); }, reverse));
}

Value sort_dict(Rendering& i, const Value& input, Arguments& a) {
  const bool case_sensitive = a.take_flag("case_sensitive", false);
  const std::string by = text_in(a.take("by", "key"), "dictsort");
  const bool reverse = a.take_flag("reverse", false);
  if (!input.dict()) fail_type("dictsort", "a mapping", input);
  if (by != "key" && by != "value") fail("dictsort sorts by key or value, got '{}'", by);
  i.budget().make_entries(input.dict()->size());
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict()->entries()) pairs.push_back(Value::tuple({key, value}));
  return Value::list(sorted(
      i, std::move(pairs),
      [&](const Value& pair) {
        const Value& value = pair.sequence()->items[by == "key" ? 0 : 1];
        return case_sensitive ? value : lower_if_text(i, value);
      },
      reverse));
}

Value unique(Rendering& i, const Value& input, Arguments& a) {
  const Key key(i, a);
  std::vector<Value> seen, items;
  const auto sequence = sequence_of(i.budget(), input);
  for (const Value& item : sequence->items) {
    Value by = key(item);
    if (std::ranges::any_of(seen, [&](const Value& one) { return equal(i.budget(), one, by); })) continue;
    seen.push_back(std::move(by));
    items.push_back(item);
  }
  return Value::generator(std::move(items));
}

template <bool largest>
Value extreme(Rendering& i, const Value& input, Arguments& a) {
  const Key key(i, a);
  const auto sequence = sequence_of(i.budget(), input);
  if (sequence->items.empty()) return Value::undefined("the extreme item of nothing");
  const auto before = [&](const Value& x, const Value& y) {
    return largest ? less(i.budget(), key(y), key(x)) : less(i.budget(), key(x), key(y));
  };
  return *std::ranges::min_element(sequence->items, before);
}

Value first(Rendering& i, const Value& input, Arguments&) {
  const auto sequence = sequence_of(i.budget(), input);
  return sequence->items.empty() ? Value::undefined("the first item of nothing") : sequence->items.front();
}

Value last(Rendering& i, const Value& input, Arguments&) {
  const auto sequence = sequence_of(i.budget(), input);
  return sequence->items.empty() ? Value::undefined("the last item of nothing") : sequence->items.back();
}

Value list(Rendering& i, const Value& input, Arguments&) {
  if (input.sequence() && input.sequence()->kind == SequenceKind::kList) return input;
  return Value::list(items_of(i.budget(), input));
}

Value reversed(Rendering& i, const Value& input, Arguments&) {
  if (input.text()) return slice(i.budget(), input, None{}, None{}, int64_t{-1});
  std::vector<Value> items = items_of(i.budget(), input);
  std::ranges::reverse(items);
  return Value::generator(std::move(items));
}

Value sum(Rendering& i, const Value& input, Arguments& a) {
  const Value attribute = a.take("attribute", None{});
  Value total = a.take("start", int64_t{0});
  const auto sequence = sequence_of(i.budget(), input);
  for (const Value& item : sequence->items)
    total =
        binary(i.budget(), BinaryOp::kAdd, total, attribute.is_none() ? item : path_in(i, item, attribute));
  return total;
}

// Returns no items if the value is false, such as none; else its items.
std::vector<Value> items_if_true(Rendering& i, const Value& input) {
  return is_true(input) ? items_of(i.budget(), input) : std::vector<Value>();
}

Value mapped(Rendering& i, const Value& input, Arguments& a) {
  std::vector<Value> items = items_if_true(i, input);
  if (a.has_next()) {
    const std::string name = a.need_text("filter");
    const std::vector<Value> positional = a.take_positional();
    const auto named = a.take_named();
    for (Value& item : items) {
      Arguments each("the filter " + name, positional, named);
      item = i.filter(name, item, each);
    }
  } else {
    const Value attribute = a.need("attribute");
    const auto otherwise = a.take("default");
    for (Value& item : items) {
      item = path_in(i, item, attribute, otherwise);
    }
  }
  return Value::generator(std::move(items));
}

// Implements select and reject, which test each item, and selectattr and rejectattr, which test an attribute of it. Without a
// test, they test if the value is true.
template <bool keep, bool by_attribute>
Value chosen(Rendering& i, const Value& input, Arguments& a) {
  const Value attribute = by_attribute ? a.need("attribute") : Value(None{});
  const std::string name = a.has_next() ? a.need_text("test") : "";
  const std::vector<Value> positional = a.take_positional();
  std::vector<Value> items;
  for (const Value& item : items_if_true(i, input)) {
    const Value asked = by_attribute ? path_in(i, item, attribute) : item;
    Arguments each("the test " + name, positional, {});
    if ((name.empty() ? is_true(asked) : i.test(name, asked, each)) == keep) items.push_back(item);
  }
  return Value::generator(std::move(items));
}

}  // namespace

// Follows a path such as "a.b.0" in an item. `otherwise` replaces a missing step.
Value path_in(Rendering& i, Value value, const Value& path, const std::optional<Value>& otherwise) {
  const auto one = [&](const Value& key) {
    value = i.item(value, key);
    if (otherwise && value.is_undefined()) value = *otherwise;
  };
  if (!path.text()) {
    one(path);
    return value;
  }
  for (const std::string& part : split_by(*path.text(), ".", -1)) {
    const bool is_index =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    one(is_index && part.size() < 10 ? Value(int64_t{std::stoll(part)}) : Value(part));
  }
  return value;
}

const Filters& item_filters() {
  static const Filters kFilters = {{"dictsort", sort_dict},
                                   {"first", first},
                                   {"last", last},
                                   {"list", list},
                                   {"map", mapped},
                                   {"max", extreme<true>},
                                   {"min", extreme<false>},
                                   {"reject", chosen<false, false>},
                                   {"rejectattr", chosen<false, true>},
                                   {"reverse", reversed},
                                   {"select", chosen<true, false>},
                                   {"selectattr", chosen<true, true>},
                                   {"sort", sort},
                                   {"sum", sum},
                                   {"unique", unique}};
  return kFilters;
}

}  // namespace genesis::jinja
