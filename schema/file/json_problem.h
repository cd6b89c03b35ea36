// Says in words why a text is not valid JSON, for messages about lines and files from outside.
#pragma once

#include <string>
#include <string_view>

namespace genesis {

// `byte` is where the parser stopped, from 1; `parser_words` is its message.
std::string json_problem(std::string_view text, size_t byte, std::string_view parser_words);

// Returns the problem of a text that is not valid JSON.
std::string why_no_json(std::string_view text);

}  // namespace genesis
