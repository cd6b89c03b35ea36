#include "models/chat/jinja/library/library.h"

#include <array>

#include "models/chat/jinja/values/write_value.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // maximum number of items, as in Jinja's sandbox

Value range(Rendering& i, Arguments& a) {
  int64_t start = integer_in(a.need("start"), "range"), step = 1;
  int64_t stop = a.has_next() ? integer_in(a.need("stop"), "range") : std::exchange(start, 0);
  if (a.has_next()) step = integer_in(a.need("step"), "range");
  if (step == 0) fail("the step of range is 0");
  std::vector<Value> numbers;
  for (int64_t n = start; step > 0 ? n < stop : n > stop;) {
    numbers.emplace_back(n);
    i.budget().step();
    if (static_cast<int64_t>(numbers.size()) > kMaxRange) fail("range gives at most {} numbers", kMaxRange);
    if (__builtin_add_overflow(n, step, &n)) break;
  }
  i.budget().make_items(numbers.size());
  std::string label = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return Value::sequence(std::move(numbers), SequenceKind::kRange, std::move(label));
}

// Makes a dict of the mapping or pairs of the first argument, followed by the named arguments.
Value make_dict(Rendering& i, Arguments& a) {
  const Value first = a.has_next() ? a.need("mapping") : Value::dict({});
  const auto named = a.take_named();
  if (first.dict() && named.empty()) return first;
  Dict dict;
  if (first.dict()) {
    i.budget().make_entries(first.dict()->size());
    dict = *first.dict();
  } else {
    const auto pairs = sequence_of(i.budget(), first);
    i.budget().make_entries(pairs->items.size());
    for (const Value& pair : pairs->items) {
      const auto two = sequence_of(i.budget(), pair);
      if (two->items.size() != 2) fail("dict takes pairs, got {} items", two->items.size());
      dict.set(two->items[0], two->items[1]);
    }
  }
  i.budget().make_entries(named.size());
  for (const auto& [name, value] : named) dict.set(name, value);
  return Value::dict(std::move(dict));
}

Value make_namespace(Rendering& i, Arguments& a) {
  const Value all = make_dict(i, a);
  i.budget().make_entries(all.dict()->size());
  auto space = i.new_namespace();
  for (const auto& [key, value] : all.dict()->entries()) {
    const std::string& name = text_in(key, "namespace");
    if (name.starts_with('_')) fail("'{}' cannot be an attribute of a namespace: it begins with _", name);
    space->attributes[name] = value;
  }
  return space;
}

Value function(const char* name, std::function<Value(Arguments&)> call) {
  return std::make_shared<const Callable>(Callable{name, std::move(call)});
}

// Makes an object that returns its items in turn: c.next(), c.current, c.reset().
Value make_cycler(Rendering& i, Arguments& a) {
  const std::vector<Value> items = a.take_positional();
  if (items.empty()) fail("cycler needs items to go through");
  i.budget().make_items(items.size());
  const auto space = i.new_namespace();
  const auto at = std::make_shared<size_t>(0);
  // The namespace stores the functions, so they hold a weak pointer to it: a strong one would be a reference cycle.
  const auto go = [space = std::weak_ptr(space), at, items](size_t to) {
    *at = to % items.size();
    if (const auto alive = space.lock()) alive->attributes["current"] = items[*at];
  };
  go(0);
  space->attributes["reset"] = function("cycler.reset", [go](Arguments&) {
    go(0);
    return Value(None{});
  });
  const auto next = function("cycler.next", [go, at, items](Arguments&) {
    const Value now = items[*at];
    go(*at + 1);
    return now;
  });
  space->attributes["next"] = next;
  return space;
}

// Makes a function that returns "" at its first call, and the separator afterwards.
Value make_joiner(Rendering&, Arguments& a) {
  const Value separator = a.take("sep", ", ");
  const auto used = std::make_shared<bool>(false);
  return function(
      "joiner", [separator, used](Arguments&) { return std::exchange(*used, true) ? separator : Value(""); });
}

Value raise_exception(Rendering& i, Arguments& a) {
  fail("the template refuses: {}", to_text(i.budget(), a.need("message")));
}

Value strftime_now(Rendering& i, Arguments& a) {
  const std::string format = a.need_text("format");
  if (format.size() > 200) fail("strftime_now takes a format of at most 200 bytes, got {}", format.size());
  const std::time_t now = i.now();
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 8192> text;
  return utf8::repaired({text.data(), std::strftime(text.data(), text.size(), format.c_str(), &parts)});
}

}  // namespace

std::map<std::string, Value, std::less<>> globals(Rendering& rendering) {
  std::map<std::string, Value, std::less<>> all;
  const auto add = [&](const char* name, Value (*function)(Rendering&, Arguments&)) {
    all.emplace(name, std::make_shared<const Callable>(Callable{name, [&rendering, function](Arguments& a) {
                                                                  return function(rendering, a);
                                                                }}));
  };
  add("cycler", make_cycler);
  add("dict", make_dict);
  add("joiner", make_joiner);
  add("namespace", make_namespace);
  add("raise_exception", raise_exception);
  add("range", range);
  add("strftime_now", strftime_now);
  return all;
}

}  // namespace genesis::jinja
