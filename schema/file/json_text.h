// Reads JSON. No other code parses it: texts and files come from outside, so all of them get the same limits and the same errors.
// (The functions hide nlohmann's parser, too, which costs each file that calls it two seconds to compile.)
//
// `what` is the subject of messages: "this line", "the model's metadata 'config.json'". The functions for files name the path.
// Errors say where the text stops being JSON, by its byte, or by line and column if it has several lines, and name the member whose
// value is NaN or infinite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schema/file/io/read_file.h"

namespace genesis {

class JsonEvents;

struct JsonLimits {
  uint64_t bytes = kAnySize;
  // Lists and objects inside of each other: copying, printing or destroying a tree uses stack for every level.
  int depth = 64;
  bool unique_names = false;  // true: the root has no two members of one name. Otherwise the last one counts
  bool may_have_mark = true;  // a byte order mark, which some editors put in front
};

inline constexpr JsonLimits kJsonFile = {.bytes = 64 << 20};

// These throw Error if the text is not valid JSON or exceeds the limits.
nlohmann::json parse_json_text(std::string_view text, std::string_view what = "it",
                               const JsonLimits& limits = {});
// The time is quadratic in the number of members of an object.
nlohmann::ordered_json parse_ordered_json_text(std::string_view text, std::string_view what = "it",
                                               const JsonLimits& limits = {});
// Also throws Error if the text is JSON of another type than an object.
nlohmann::json parse_json_object(std::string_view text, std::string_view what = "it",
                                 const JsonLimits& limits = {});

// Returns a discarded value where parse_json_text() would throw.
nlohmann::json try_parse_json_text(std::string_view text);

// Read a regular file. Throw Error naming the path, also if it cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = kJsonFile);
nlohmann::json read_json_object(const std::filesystem::path& path, const JsonLimits& limits = kJsonFile);

// Calls the handler for the parts of a text (schema/file/json_events.h). Throws Error like parse_json_text(), in the middle of the
// calls.
void read_json_events(std::string_view text, JsonEvents& handler, std::string_view what = "it",
                      const JsonLimits& limits = {});

}  // namespace genesis
