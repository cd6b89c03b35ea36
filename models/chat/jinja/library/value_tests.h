// Jinja's tests: {% if message.content is string %}.
#pragma once

#include <string_view>

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

// One of the two, the other is null.
struct Test {
  bool (*of_value)(const Value& input);
  bool (*with_arguments)(Interpreter& interpreter, const Value& input, Arguments& arguments);
};
const Test* find_test(std::string_view name);  // null where there is none

}  // namespace genesis::jinja
