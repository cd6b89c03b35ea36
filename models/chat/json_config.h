// Reads JSON configuration files that stand beside a tokenizer. Their contents are not trusted.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "schema/graph/model.h"

namespace genesis::chat {

// Reads a file of at most 16 MiB. Throws Error naming the path.
std::string read_limited(const std::filesystem::path& path);

// The configuration files that came with a model, in its folder or inside its own file.
class ConfigFiles {
 public:
  static ConfigFiles in_folder(const std::filesystem::path& folder);
  // Reads files attached to the model. `file` is its path, for messages. The model must outlive this object.
  static ConfigFiles of_model(const Model& model, const std::string& file);
  // Does the same, and shares ownership of the model.
  static ConfigFiles of_model(std::shared_ptr<const Model> model, const std::string& file);

  std::optional<std::string> find(const std::string& name) const;
  // Returns a file as a JSON object; empty if there is no such file. Throws Error naming it if it is not a JSON object, or is
  // nested more than 64 deep.
  std::optional<nlohmann::json> object(const std::string& name) const;
  // Returns the path that a file of this name has, or would have.
  std::string where(const std::string& name) const;

 private:
  std::string place_;
  std::function<std::optional<std::string>(const std::string& name)> read_;
};

}  // namespace genesis::chat
