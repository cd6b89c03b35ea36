// Files that hold tensors of an .onnx file. A name in a file that is not trusted may point anywhere, so only regular files inside
// the folder of the .onnx file are opened, after symbolic links are followed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "schema/file/io/mapped_file.h"
#include "schema/file/other_formats/onnx/values.h"

namespace genesis {

class OnnxExternalFiles {
 public:
  // `folder` contains the .onnx file. An empty path allows no other file at all.
  explicit OnnxExternalFiles(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  // Returns the file that the data is in, mapped. Throws Error if its name leads out of the folder, or if the range is not inside
  // the file.
  std::shared_ptr<const MappedFile> open(const OnnxExternalData& data, int64_t bytes);
  MappedFiles files() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace genesis
