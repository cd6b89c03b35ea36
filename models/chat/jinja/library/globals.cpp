#include "models/chat/jinja/library/library.h"

#include <array>

#include "models/chat/jinja/values/write_value.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // numbers, as Jinja's sandbox has it

Value range(Rendering& i, Arguments& a) {
  int64_t start = integer_in(a.need("start"), "range"), step = 1;
  int64_t stop = a.has_next() ? integer_in(a.need("stop"), "range") : std::exchange(start, 0);
  if (a.has_next()) step = integer_in(a.need("step"), "range");
  if (step == 0) fail("the step of range is 0");
  std::vector<Value> numbers;
  for (int64_t n = start; step > 0 ? n < stop : n > stop;) {
    numbers.emplace_back(n);
    if (static_cast<int64_t>(numbers.size()) > kMaxRange) fail("range gives at most {} numbers", kMaxRange);
    if (__builtin_add_overflow(n, step, &n)) break;
  }
  i.budget().make(numbers.size() * sizeof(Value));
  return Value::list(std::move(numbers));
}

Dict merged(Arguments& a) {
  Dict dict;
  if (const auto first = a.has_next() ? a.take("mapping") : std::nullopt) {
    if (!first->dict()) fail_type(a.function(), "a mapping", *first);
    dict = *first->dict();
  }
  for (auto& [name, value] : a.take_named()) dict.set(name, std::move(value));
  return dict;
}

Value make_namespace(Rendering& i, Arguments& a) {
  Namespace* space = i.new_namespace();
  for (auto& [name, value] : merged(a).entries) space->attributes[text_in(name, "namespace")] = value;
  return space;
}

Value make_dict(Rendering&, Arguments& a) { return Value::dict(merged(a)); }

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
  add("dict", make_dict);
  add("namespace", make_namespace);
  add("raise_exception", raise_exception);
  add("range", range);
  add("strftime_now", strftime_now);
  return all;
}

}  // namespace genesis::jinja
