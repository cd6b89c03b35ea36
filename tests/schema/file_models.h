// Small models that the file tests save, load and damage.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "schema/model.h"

namespace genesis::testing {

// Every feature of the format: symbolic inputs, states of each kind, tied tensors, constants, attributes,
// origins, several outputs per node, updates, two entry points.
std::unique_ptr<Model> rich_model();

// A folder of its own that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  size_t count_files() const;

 private:
  std::filesystem::path path_;
};

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);

// What a load says: "" when it worked, else the error's message.
std::string load_error(const std::filesystem::path& path);

}  // namespace genesis::testing
