// What templates can name: filters, functions, methods and tests.
#pragma once

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

// Jinja's filters, those that templates of conversations use: {{ messages | length }}.
using Filter = Value (*)(Interpreter& interpreter, const Value& input, Arguments& arguments);
Filter find_filter(std::string_view name);  // null where there is none

// Those that go over items, and those that make text of text; filters.cpp has the others.
const std::map<std::string, Filter, std::less<>>& item_filters();
const std::map<std::string, Filter, std::less<>>& text_filters();

// The functions that every template can call: range, namespace, dict, raise_exception, strftime_now.
std::map<std::string, Value, std::less<>> globals(Interpreter& interpreter);

// Methods of Python's str, dict and list, and of `loop`: message.content.strip(). Those that would change a list or a
// mapping are not there: templates may not, in transformers either.
//
// object.name as a function that is bound to `object`.
std::optional<Value> find_method(Interpreter& interpreter, const Value& object, std::string_view name);

// str.format of Python, as far as chat templates go: {}, {0} and {name}, without a format behind a colon.
//
// Throws Error for anything else between { and }.
std::string format_text(Interpreter& interpreter, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named);

// Jinja's tests: {% if message.content is string %}.
//
// One of the two, the other is null.
struct Test {
  bool (*of_value)(const Value& input);
  bool (*with_arguments)(Interpreter& interpreter, const Value& input, Arguments& arguments);
};
const Test* find_test(std::string_view name);  // null where there is none

}  // namespace genesis::jinja
