// Reads JSON files that come with a checkpoint. Their contents are not trusted.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::models::hugging_face {

// Throws Error if parsing stopped at NaN or Infinity, which Python writes for non-finite numbers and JSON does not allow.
inline void check_is_no_word_of_python(std::string_view text, size_t byte) {
  const std::string_view rest = text.substr(std::min(byte == 0 ? 0 : byte - 1, text.size()));
  for (const std::string_view word : {"NaN", "Infinity"}) {
    if (!rest.starts_with(word)) continue;
    const std::string_view before = text.substr(0, text.size() - rest.size());
    const size_t end = before.rfind('"'),
                 begin = end == 0 || end == before.npos ? before.npos : before.rfind('"', end - 1);
    const std::string_view name = begin == before.npos ? "" : before.substr(begin + 1, end - begin - 1);
    fail("'{}' is {}{}, which is no number of JSON: write the number that was meant", name.substr(0, 60),
         before.ends_with('-') ? "-" : "", word);
  }
}

// Throws Error that says why the text is not JSON.
inline nlohmann::json parse_json(const std::string& text) {
  try {
    check_shallow_json(text);
    return parse_json_text(text);
  } catch (const nlohmann::json::parse_error& problem) {
    check_is_no_word_of_python(text, problem.byte);
    fail("no JSON: {}", problem.what());
  } catch (const nlohmann::json::exception& problem) {
    fail("no JSON: {}", problem.what());
  }
}

// Throws Error naming the path.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  const std::string text = read_regular_file(path, kMaxBytes);
  try {
    return parse_json(text);
  } catch (const Error& problem) {
    fail("{}: {}", path.string(), problem.message());
  }
}

}  // namespace genesis::models::hugging_face
