// The ending of a file's name, which says what is in it, in whatever case it is written: ".jsonl" of "TALKS.JSONL".
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

// Lines of JSON have two names.
inline bool is_json_lines(const std::filesystem::path& path) {
  const std::string ending = file_ending(path);
  return ending == ".jsonl" || ending == ".ndjson";
}

}  // namespace genesis
