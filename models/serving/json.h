// JSON of requests and answers, with keys in the order in which they were written.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace genesis::serving {

using Json = nlohmann::ordered_json;

// Parses a request's body. Throws ApiError if it is not JSON, not an object, or nested more than 64 deep, or has an object of more than 2000 members.
Json parse_body(std::string_view text);

// Returns nothing for a text that is not JSON.
std::optional<Json> try_parse(std::string_view text);

// Returns the JSON on one line. Bytes in strings that are not UTF-8 become U+FFFD.
std::string json_line(const Json& value);

// Returns a short text of a value, for messages.
std::string shown(const Json& value);

}  // namespace genesis::serving
