// TensorBoard's event files, as far as scalars need them: records framed as TensorFlow's TFRecord (lengths and data each
// followed by a masked CRC-32C), each a serialised protocol buffer Event of tensorflow/core/util/event.proto.
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
  // Makes a file "events.out.tfevents.<seconds>.<host>.<process>" in the folder, which is made where it is missing.
  // Throws Error when that cannot be.
  explicit EventFile(const std::filesystem::path& folder);
  // One event with a scalar for each (tag, number); numbers that are NaN are left out. Flushed.
  void write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace genesis
