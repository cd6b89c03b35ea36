// Small models that the file tests save, load and damage.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "schema/file/format/records.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/model.h"

namespace genesis::testing {

// Uses every feature of the format: symbolic inputs, states of each kind, tied tensors, constants, attributes,
// origins, several outputs per node, updates, two entry points.
std::unique_ptr<Model> rich_model();

// The models in the golden files: ops with stable rules, shaped like a real model. Since version 2 also encoded
// states.
std::unique_ptr<Model> golden_model();
std::unique_ptr<Model> golden_model_of_version_2();
// Since version 3 some tensors are joined: the state "joined.weight", if saved with these options.
std::unique_ptr<Model> golden_model_of_version_3();
SaveOptions golden_options_of_version_3();
std::unique_ptr<Model> golden_model_of_version_4();
SaveOptions golden_options_of_version_4();

// A temporary folder that is removed at the end.
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

// Assembles a whole file; `data` follows the graph section.
std::string file_of(const file::ModelRecord& record, const std::string& data);
std::string file_of(const Model& model, const SaveOptions& options = {.segment_bytes = 1 << 20});

// Corrects sizes and hash of a damaged file, so that deeper checks are reached.
void fix_header(std::string& bytes);

// Loads from memory as load_model does from a file.
std::unique_ptr<Model> load_bytes(const std::string& bytes, const LoadOptions& options = {});

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);

// Returns the error message of a load; "" if it succeeds.
std::string load_error(const std::filesystem::path& path, const LoadOptions& options = {});

}  // namespace genesis::testing
