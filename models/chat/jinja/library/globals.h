// The functions that every template can call: range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

std::map<std::string, Value, std::less<>> globals(Interpreter& interpreter);

}  // namespace genesis::jinja
