// The entries of a .pt2 archive: its program and its tensors.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "schema/core/tensor.h"
#include "schema/file/other_formats/zip.h"

namespace genesis::models::pt2 {

// The description of a tensor in the file: dtype, sizes, strides in elements, and where it begins in its storage.
TensorType constant_type(const nlohmann::json& meta);

class Archive {
 public:
  // Throws Error if the file is no archive of an exported program, or if it is of another version of the schema.
  explicit Archive(const std::filesystem::path& path);

  const nlohmann::json& program() const { return program_; }  // models/model.json
  const std::shared_ptr<const MappedFile>& file() const { return zip_.file; }

  // Returns a parameter, a buffer or a constant by its name; throws Error if there is none.
  Tensor tensor(const std::string& name) const;
  // Returns the entry that holds its bytes: tensors with the same entry and the same description are one.
  std::string key_of(const std::string& name) const;

 private:
  struct Stored {
    std::string entry;
    nlohmann::json meta;
  };
  std::span<const std::byte> entry(const std::string& name) const;
  nlohmann::json json_of(const std::string& name) const;
  void read_config(const std::string& folder, const std::string& name);
  const Stored& stored(const std::string& name) const;

  ZipArchive zip_;
  std::string root_;  // the folder that all entries are in, with its '/'
  nlohmann::json program_;
  std::map<std::string, Stored> tensors_;
};

}  // namespace genesis::models::pt2
