// Writes scalars as TensorBoard event files: records framed as TensorFlow's TFRecord (length and data, each followed by a masked
// CRC-32C); each record is a serialized protocol buffer Event of tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis {

// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected).
uint32_t crc32c(std::string_view data);

class EventFile {
 public:
  // Creates a file "events.out.tfevents.<seconds>.<host>.<process>" in the folder, and the folder if it is missing. Throws Error
  // if that fails.
  explicit EventFile(const std::filesystem::path& folder);
  // Writes one event with a scalar for each (tag, number), and flushes. Numbers that are NaN are omitted.
  void write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace genesis
