// JSON files of settings that stand beside a tokenizer. What they hold is not trusted.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "schema/graph/model.h"

namespace genesis::chat {

// A file of at most 16 MiB. Throws Error naming the path.
std::string read_limited(const std::filesystem::path& path);

// The files of settings that came with a model: in the folder that it came from, or in its own file.
class ConfigFiles {
 public:
  static ConfigFiles in_folder(const std::filesystem::path& folder);
  // `file`: the model's, for messages. The model outlives this.
  static ConfigFiles of_model(const Model& model, const std::string& file);
  // This keeps the model.
  static ConfigFiles of_model(std::shared_ptr<const Model> model, const std::string& file);

  std::optional<std::string> find(const std::string& name) const;
  // Nothing where there is no such file. Throws Error naming it where it is no JSON object, or nests
  // deeper than 64.
  std::optional<nlohmann::json> object(const std::string& name) const;
  // Where a file of this name is, or would be.
  std::string where(const std::string& name) const;

 private:
  std::string place_;
  std::function<std::optional<std::string>(const std::string& name)> read_;
};

}  // namespace genesis::chat
