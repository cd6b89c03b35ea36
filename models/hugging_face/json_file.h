// JSON files that come with a checkpoint. What they hold is not trusted.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "schema/file/io/read_file.h"
#include "schema/file/json_nesting.h"

namespace genesis::models::hugging_face {

// Throws Error saying why it is none.
inline nlohmann::json parse_json(const std::string& text) {
  try {
    // Whoever writes a tree out, or takes it apart, uses stack for every level.
    JsonNesting nesting(64, "lists and objects are nested more than 64 deep");
    nlohmann::json::sax_parse(text, &nesting);
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& problem) {
    fail("no JSON: {}", problem.what());
  }
}

// Throws Error naming the path.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  constexpr uintmax_t kMaxBytes = uintmax_t{64} << 20;
  std::error_code error;
  if (const uintmax_t bytes = std::filesystem::file_size(path, error); !error && bytes > kMaxBytes)
    fail("{}: {} bytes are more than the limit of {}", path.string(), bytes, kMaxBytes);
  const std::string text = read_whole_file(path);
  try {
    return parse_json(text);
  } catch (const Error& problem) {
    fail("{}: {}", path.string(), problem.message());
  }
}

}  // namespace genesis::models::hugging_face
