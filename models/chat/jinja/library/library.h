// What templates can name: filters, functions, methods and tests; and what those share while a template is rendered.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>

#include "models/chat/jinja/values/arguments.h"
#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/operators.h"

namespace genesis::jinja {

// One rendering of a template, as filters and functions see it. The interpreter is one.
class Rendering {
 public:
  Rendering(const Limits& limits, std::time_t now) : budget_(limits), now_(now) {}

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  Namespace* new_namespace();
  Value filter(const std::string& name, const Value& input, Arguments& arguments);
  bool test(const std::string& name, const Value& input, Arguments& arguments);
  // object.name, undefined where there is none.
  Value attribute(const Value& object, const std::string& name);
  // object[key], likewise.
  Value item(const Value& object, const Value& key);

 private:
  Budget budget_;
  std::time_t now_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

// Jinja's filters, those that templates of conversations use: {{ messages | length }}.
using Filter = Value (*)(Rendering& rendering, const Value& input, Arguments& arguments);
Filter find_filter(std::string_view name);  // null where there is none

// Those that go over items, and those that make text of text; filters.cpp has the others.
const std::map<std::string, Filter, std::less<>>& item_filters();
const std::map<std::string, Filter, std::less<>>& text_filters();

// The functions that every template can call: range, namespace, dict, raise_exception, strftime_now.
std::map<std::string, Value, std::less<>> globals(Rendering& rendering);

// Methods of Python's str, dict and list, and of `loop`: message.content.strip(). Those that would change a list or a
// mapping are not there: templates may not, in transformers either.
//
// object.name as a function that is bound to `object`.
std::optional<Value> find_method(Rendering& rendering, const Value& object, std::string_view name);

// str.format of Python, as far as chat templates go: {}, {0} and {name}, without a format behind a colon.
//
// Throws Error for anything else between { and }.
std::string format_text(Rendering& rendering, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named);

// Jinja's tests: {% if message.content is string %}.
//
// One of the two, the other is null.
struct Test {
  bool (*of_value)(const Value& input);
  bool (*with_arguments)(Rendering& rendering, const Value& input, Arguments& arguments);
};
const Test* find_test(std::string_view name);  // null where there is none

}  // namespace genesis::jinja
