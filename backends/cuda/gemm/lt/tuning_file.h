// What tuning found, kept between processes: lines of text, one per problem, each with a checksum of its own.
// Used by autotune.cpp. A line that is damaged is as good as absent.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace genesis::cuda {

class TuningFile {
 public:
  // Without a path nothing is kept. Reads what is there; never throws.
  explicit TuningFile(std::optional<std::filesystem::path> path);

  std::optional<std::string> find(const std::string& key) const;
  // Keys and values hold no tab and no newline. Writes the file, with what others have added meanwhile; a
  // disk that refuses costs the next process its tuning, no more.
  void add(const std::string& key, const std::string& value);

 private:
  void read();
  void write() const;

  std::optional<std::filesystem::path> path_;
  std::map<std::string, std::string> lines_;
};

}  // namespace genesis::cuda
