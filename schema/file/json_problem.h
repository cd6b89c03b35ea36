// Says in words why a text is no JSON. Used where a line or a file that somebody else wrote is refused.
#pragma once

#include <string>
#include <string_view>

namespace genesis {

// `byte`: where the parser stopped, from 1. `parser_words`: what it said there.
std::string json_problem(std::string_view text, size_t byte, std::string_view parser_words);

// Says it of a text that is no JSON.
std::string why_no_json(std::string_view text);

}  // namespace genesis
