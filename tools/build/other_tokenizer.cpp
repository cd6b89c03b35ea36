#include "tools/build/other_tokenizer.h"

#include <nlohmann/json.hpp>

#include "models/chat/json_config.h"
#include "models/tokenizer/model_files.h"
#include "schema/file/attached_files.h"
#include "models/text/load_tokenizer.h"

namespace genesis::tools {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";

std::map<std::string, Tensor, std::less<>> files_of(const std::string& path) {
  if (models::names_model(path)) return open_model(path)->files;
  Model alone;
  text::attach_tokenizer_files(alone, path);
  return std::move(alone.files);
}

nlohmann::json template_in_config(const Model& model, const std::string& source) {
  const auto config = chat::ConfigFiles::of_model(model, source).object(kConfigFile);
  return config ? config->value("chat_template", nlohmann::json()) : nlohmann::json();
}

}  // namespace

void take_tokenizer(Model& model, const std::string& path) {
  const nlohmann::json own_template = template_in_config(model, "the file");
  auto files = files_of(path);
  for (const char* name : {"tokenizer.json", kConfigFile, "special_tokens_map.json"}) model.files.erase(name);
  for (auto& [name, bytes] : files) model.files.insert_or_assign(name, std::move(bytes));
  if (!files.contains(kTemplateFile) && !template_in_config(model, path).is_null())
    model.files.erase(kTemplateFile);
  else if (!attached_file(model, kTemplateFile) && own_template.is_string())
    attach_file(model, kTemplateFile, own_template.get<std::string>());
  text::brought_tokenizer(model, path);
}

}  // namespace genesis::tools
