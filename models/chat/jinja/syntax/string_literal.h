// What stands between the quotes of a text in a template, without its escapes, which are Python's.
#pragma once

#include <string>
#include <string_view>

namespace genesis::jinja {

// Throws Error for \N{name}, and for numbers that are no character.
std::string unescaped(std::string_view literal);

}  // namespace genesis::jinja
