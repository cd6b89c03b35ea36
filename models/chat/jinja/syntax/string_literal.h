// Resolves the escapes of a string literal in a template, which are Python's.
#pragma once

#include <string>
#include <string_view>

namespace genesis::jinja {

// Returns the value of the text between the quotes. Throws Error for \N{name}, and for numbers that are not a character.
std::string unescaped(std::string_view literal);

}  // namespace genesis::jinja
