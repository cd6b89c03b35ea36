// Jinja's filters, those that templates of conversations use: {{ messages | length }}.
#pragma once

#include <string_view>

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

using Filter = Value (*)(Interpreter& interpreter, const Value& input, Arguments& arguments);
Filter find_filter(std::string_view name);  // null where there is none

// Those that go over items; text_filters.cpp and filters.cpp have the others.
const std::map<std::string, Filter, std::less<>>& item_filters();
const std::map<std::string, Filter, std::less<>>& text_filters();

}  // namespace genesis::jinja
