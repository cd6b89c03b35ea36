// Methods of Python's str, dict and list, and of `loop`: message.content.strip(). Those that would change a list or a
// mapping are not there: templates may not, in transformers either.
#pragma once

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

// object.name as a function that is bound to `object`.
std::optional<Value> find_method(Interpreter& interpreter, const Value& object, std::string_view name);

}  // namespace genesis::jinja
