// Returns the ending of a file's name in lower case, which tells the file's format: ".jsonl" for "TALKS.JSONL".
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace genesis {

inline std::string file_ending(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending;
}

// JSON Lines files have two common endings.
inline bool is_json_lines(const std::filesystem::path& path) {
  const std::string ending = file_ending(path);
  return ending == ".jsonl" || ending == ".ndjson";
}

}  // namespace genesis
