// Parses JSON. These functions hide nlohmann's parser, which costs each file that calls it two seconds to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace genesis {

// Throw nlohmann::json::exception if the text is not valid JSON.
nlohmann::json parse_json_text(std::string_view text);
nlohmann::ordered_json parse_ordered_json_text(std::string_view text);

// Returns a discarded value if the text is not valid JSON.
nlohmann::json try_parse_json_text(std::string_view text);

// Returns true if the text is valid JSON. Throws Error if it nests deeper than 64 levels, because copying, printing or destroying
// a tree uses stack for every level.
bool check_shallow_json(std::string_view text);

// Parses a text that is not trusted; returns a discarded value if it is not valid JSON. Throws Error like check_shallow_json().
nlohmann::json parse_shallow_json(std::string_view text);

}  // namespace genesis
