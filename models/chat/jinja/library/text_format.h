// str.format of Python, as far as chat templates go: {}, {0} and {name}, without a format behind a colon.
#pragma once

#include "models/chat/jinja/interpreter.h"

namespace genesis::jinja {

// Throws Error for anything else between { and }.
std::string format_text(Interpreter& interpreter, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named);

}  // namespace genesis::jinja
