// Results of tuning, kept between processes: lines of text, one per problem, each with its own checksum. A damaged
// line is treated as missing.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace genesis::cuda {

class TuningFile {
 public:
  // Without a path nothing is kept. Reads the existing lines; never throws.
  explicit TuningFile(std::optional<std::filesystem::path> path);

  std::optional<std::string> find(const std::string& key) const;
  // Keys and values contain no tab and no newline. Writes the file, including lines that other processes have added
  // meanwhile. If the disk refuses, the next process has to tune again.
  void add(const std::string& key, const std::string& value);

 private:
  void read();
  void write() const;

  std::optional<std::filesystem::path> path_;
  std::map<std::string, std::string> lines_;
};

}  // namespace genesis::cuda
