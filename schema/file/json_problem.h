// Says in words why a text is not valid JSON, for messages about lines and files from outside (schema/file/json_text.h).
#pragma once

#include <string>
#include <string_view>

namespace genesis {

// `byte` is where the parser stopped, from 1; `parser_words` is its message; `path` names the member there, as "model.scale"; it
// may be empty. Says the place as a byte, or as line and column behind a line feed.
std::string json_problem(std::string_view text, size_t byte, std::string_view parser_words,
                         const std::string& path);

}  // namespace genesis
