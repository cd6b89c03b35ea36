#include "models/chat/json_config.h"

#include "schema/file/attached_files.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::chat {
namespace {

constexpr uint64_t kMaxBytes = 16 << 20;  // tokenizer_config.json of Llama 3 has 50 KB

}  // namespace

std::string read_limited(const std::filesystem::path& path) { return read_whole_file(path, kMaxBytes); }

ConfigFiles ConfigFiles::in_folder(const std::filesystem::path& folder) {
  ConfigFiles files;
  files.place_ = folder.string();
  files.read_ = [folder](const std::string& name) -> std::optional<std::string> {
    if (!std::filesystem::exists(folder / name)) return std::nullopt;
    return read_regular_file(folder / name, kMaxBytes);
  };
  return files;
}

ConfigFiles ConfigFiles::of_model(const Model& model, const std::string& file) {
  ConfigFiles files;
  files.place_ = file;
  files.read_ = [&model](const std::string& name) -> std::optional<std::string> {
    if (const auto bytes = attached_file(model, name)) return std::string(*bytes);
    const auto found = model.metadata.find(name);
    return found == model.metadata.end() ? std::nullopt : std::optional(found->second);
  };
  return files;
}

ConfigFiles ConfigFiles::of_model(std::shared_ptr<const Model> model, const std::string& file) {
  ConfigFiles files = of_model(*model, file);
  files.read_ = [model, read = std::move(files.read_)](const std::string& name) { return read(name); };
  return files;
}

std::optional<std::string> ConfigFiles::find(const std::string& name) const { return read_(name); }

std::optional<nlohmann::json> ConfigFiles::object(const std::string& name) const {
  const auto text = find(name);
  return text ? std::optional(parse_json_object(*text, where(name))) : std::nullopt;
}

std::string ConfigFiles::where(const std::string& name) const {
  return (std::filesystem::path(place_) / name).string();
}

}  // namespace genesis::chat
