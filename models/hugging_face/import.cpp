#include "models/hugging_face/import.h"

#include "executor/state_dict.h"
#include "models/hugging_face/checkpoint.h"
#include "models/hugging_face/config.h"
#include "models/hugging_face/json_file.h"

namespace genesis::models::hugging_face {

bool is_model_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(path); }

std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes) {
  const std::filesystem::path config_file = folder / "config.json";
  if (!std::filesystem::exists(config_file))
    fail("{}: there is no config.json: expected a folder as transformers saves a model", folder.string());
  const nlohmann::json config = read_json(config_file);
  auto [name, settings] = read_config(config, config_file);
  if (const auto positions = settings.find("max_position_embeddings"); positions != settings.end())
    positions->second = std::to_string(std::min<int64_t>(std::stoll(positions->second), kDefaultPositions));
  for (const auto& [key, value] : changes) settings[key] = value;
  settings["initializer_range"] = "0";  // nothing is drawn that is replaced at once
  std::unique_ptr<Model> model = make_model(name, settings);
  const bool tied = name == "gpt2" || settings.at("tie_word_embeddings") == "true";
  with_context([&] { load_state_dict(*model, read_weights(folder, name, tied)); },
               [&] { return folder.string(); });
  model->metadata["config.json"] = config.dump();
  return model;
}

}  // namespace genesis::models::hugging_face
