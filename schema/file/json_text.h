// JSON from text. Behind functions, since nlohmann's parser takes each file that calls it two seconds to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace genesis {

// Throws nlohmann::json::exception where the text is no JSON.
nlohmann::json parse_json_text(std::string_view text);
nlohmann::ordered_json parse_ordered_json_text(std::string_view text);

// Discarded where the text is no JSON.
nlohmann::json try_parse_json_text(std::string_view text);

// Whether the text is JSON. Throws Error where it nests deeper than 64: whoever copies, writes out or takes apart a tree uses
// stack for every level.
bool check_shallow_json(std::string_view text);

// Of a text that is not trusted; discarded where it is no JSON. Throws Error as check_shallow_json() does.
nlohmann::json parse_shallow_json(std::string_view text);

}  // namespace genesis
