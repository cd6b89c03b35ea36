// Filters that split the items of a value into several lists.
#include <algorithm>

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/casing.h"

namespace genesis::jinja {
namespace {

// Limit of the number of lists that slice makes, and of the size of the lists that batch makes.
constexpr int64_t kMaxLists = 100'000;

int64_t number_of(const Value& value, const char* filter) {
  const int64_t number = integer_in(value, filter);
  if (number < 1 || number > kMaxLists) fail("{} takes 1 to {}, got {}", filter, kMaxLists, number);
  return number;
}

// Splits items into lists of `linecount` items each.
Value batch(Rendering& i, const Value& input, Arguments& a) {
  const int64_t count = number_of(a.need("linecount"), "batch");
  const Value fill = a.take("fill_with", None{});
  const auto sequence = sequence_of(i.budget(), input);
  i.budget().make_items(2 * sequence->items.size() + 1);
  std::vector<Value> lists, now;
  for (const Value& item : sequence->items) {
    if (static_cast<int64_t>(now.size()) == count) lists.push_back(Value::list(std::exchange(now, {})));
    now.push_back(item);
  }
  if (!now.empty()) {
    if (!fill.is_none()) {
      i.budget().make_items(static_cast<size_t>(count));
      now.resize(static_cast<size_t>(count), fill);
    }
    lists.push_back(Value::list(std::move(now)));
  }
  return Value::generator(std::move(lists));
}

// Splits items into `slices` lists whose sizes differ by at most one.
Value sliced(Rendering& i, const Value& input, Arguments& a) {
  const int64_t count = number_of(a.need("slices"), "slice");
  const Value fill = a.take("fill_with", None{});
  const auto sequence = sequence_of(i.budget(), input);
  const auto size = static_cast<int64_t>(sequence->items.size());
  i.budget().make_items(static_cast<size_t>(size + 3 * count));
  std::vector<Value> lists;
  for (int64_t at = 0, n = 0; n < count; ++n) {
    const int64_t end = at + size / count + (n < size % count);
    std::vector<Value> items(sequence->items.begin() + at, sequence->items.begin() + end);
    if (!fill.is_none() && n >= size % count) items.push_back(fill);
    lists.push_back(Value::list(std::move(items)));
    at = end;
  }
  return Value::generator(std::move(lists));
}

// Groups items by an attribute: returns a sorted list of pairs (grouper, list).
Value grouped(Rendering& i, const Value& input, Arguments& a) {
  const Value attribute = a.need("attribute");
  auto otherwise = a.take("default");
  if (otherwise && otherwise->is_none()) otherwise.reset();
  const bool case_sensitive = a.take_flag("case_sensitive", false);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(i.budget(), input)) {
    const Value key = path_in(i, item, attribute, otherwise);
    const bool folds = key.text() && !case_sensitive;
    if (folds) i.budget().characters(key.text()->size());
    keyed.emplace_back(folds ? Value(lower(*key.text())) : key, item);
  }
  std::ranges::stable_sort(keyed,
                           [&](const auto& x, const auto& y) { return less(i.budget(), x.first, y.first); });
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> items;
    size_t end = begin;
    for (; end < keyed.size() && equal(i.budget(), keyed[end].first, keyed[begin].first); ++end)
      items.push_back(keyed[end].second);
    const Value grouper = path_in(i, items[0], attribute, otherwise);
    groups.push_back(
        Value::sequence({grouper, Value::list(std::move(items))}, SequenceKind::kTuple, "group"));
    begin = end;
  }
  return Value::list(std::move(groups));
}

}  // namespace

const Filters& group_filters() {
  static const Filters kFilters = {{"batch", batch}, {"groupby", grouped}, {"slice", sliced}};
  return kFilters;
}

}  // namespace genesis::jinja
