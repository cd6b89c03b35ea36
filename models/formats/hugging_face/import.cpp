#include "models/formats/hugging_face/import.h"

#include "executor/state_dict.h"
#include "models/formats/hugging_face/checkpoint.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/extra_tensors.h"
#include "models/formats/hugging_face/json_file.h"
#include "models/tokenizer/model_files.h"
#include "schema/core/parse_number.h"

namespace genesis::models::hugging_face {

namespace {

constexpr std::string_view kRemedy =
    "config.json and the weights must be of one model: get both again, or correct config.json with settings "
    "(genesis-build --set NAME=VALUE)";

// Returns advice for an error; names one of the weights that the model does not have, if there are any.
std::string remedy_for(const Model& model, const NamedTensors& weights) {
  for (const auto& [name, tensor] : weights)
    if (model.find_state(name) < 0) return std::string(kRemedy) + fmt::format(kRemedyOfExtra, name);
  return std::string(kRemedy);
}

// Refuses more layers than there are tensors: making a model of that many would take forever.
void check_layers(const Settings& settings, size_t weights) {
  for (const char* name : {"num_hidden_layers", "n_layer"})
    if (const auto at = settings.find(name); at != settings.end())
      if (const auto layers = parse_number<uint64_t>(at->second); layers && *layers > weights)
        fail("config.json says {} {}, and the weights are {} tensors", name, *layers, weights);
}

}  // namespace

void limit_cache(Settings& settings, const Settings& changes) {
  const auto positions = settings.find("max_position_embeddings");
  if (positions == settings.end() || changes.contains("max_position_embeddings")) return;
  if (std::stoll(positions->second) > kDefaultPositions)
    settings["cache_positions"] = std::to_string(kDefaultPositions);
}

bool is_model_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(path); }

std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes,
                                    MappedFiles* files, const std::vector<std::string>& ignored) {
  const std::filesystem::path config_file = folder / "config.json";
  if (!std::filesystem::exists(config_file))
    fail("{}: there is no config.json: expected a folder as transformers saves a model", folder.string());
  const nlohmann::json config = read_json(config_file);
  auto [name, settings] = read_config(config, config_file);
  limit_cache(settings, changes);
  for (const auto& [key, value] : changes) settings[key] = value;
  const bool tied = settings.at("tie_word_embeddings") == "true",
             asked_for = changes.contains("tie_word_embeddings");
  const Head head = !tied ? Head::kOwn : asked_for ? Head::kTiedAnyway : Head::kTied;
  CheckpointWeights weights = read_weights(folder, name, head, files);
  std::unique_ptr<Model> model = with_context(
      [&] {
        check_layers(settings, weights.tensors.size() + weights.unsupported.size());
        // Shapes are compared with those of the weights before memory is allocated for any of them.
        auto made = with_context([&] { return make_uninitialized_model(name, settings); },
                                 [] { return "in the model that config.json says"; });
        leave_out_extra_tensors(*made, weights, ignored);
        load_whole_state_dict(*made, weights.tensors, remedy_for(*made, weights.tensors));
        return made;
      },
      [&] { return folder.string(); });
  model->metadata["config.json"] = config.dump();
  text::attach_tokenizer_files(*model, folder);
  return model;
}

}  // namespace genesis::models::hugging_face
