// JSON files that come with a checkpoint. What they hold is not trusted.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/io/read_file.h"

namespace genesis::models::hugging_face {

// Throws Error naming the path.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  constexpr uintmax_t kMaxBytes = uintmax_t{64} << 20;
  std::error_code error;
  if (const uintmax_t bytes = std::filesystem::file_size(path, error); !error && bytes > kMaxBytes)
    fail("{}: {} bytes are more than the limit of {}", path.string(), bytes, kMaxBytes);
  const std::string text = read_whole_file(path);
  try {
    // Deep nesting would cost stack where the tree is taken apart.
    const auto no_deeper = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
      if (depth > 64) fail("lists and objects are nested more than 64 deep");
      return true;
    };
    return nlohmann::json::parse(text, no_deeper);
  } catch (const nlohmann::json::exception& problem) {
    fail("{}: no JSON: {}", path.string(), problem.what());
  } catch (const Error& problem) {
    fail("{}: {}", path.string(), problem.message());
  }
}

}  // namespace genesis::models::hugging_face
