#include "models/formats/hugging_face/import.h"

#include "builder/skip_init.h"
#include "executor/state_dict.h"
#include "models/formats/hugging_face/checkpoint.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/encoded_states.h"
#include "models/formats/hugging_face/extra_tensors.h"
#include "models/formats/hugging_face/family_settings.h"
#include "models/formats/hugging_face/fused.h"
#include "models/formats/hugging_face/quantization_config.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "models/formats/hugging_face/sentence_modules.h"
#include "models/formats/hugging_face/stacked.h"
#include "models/formats/hugging_face/text_part.h"
#include "models/tokenizer/model_files.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

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
void check_layers(const FamilySettings& made, size_t weights) {
  const std::string& name = made.family->layers_setting;
  if (const int64_t layers = made.settings.at(name); layers > static_cast<int64_t>(weights))
    fail("config.json says {} {}, and the weights are {} tensors", name, layers, weights);
}

// Gives the states of quantized weights their values, and says what became of them.
void set_quantized(Model& model, const FamilySettings& made, const CheckpointWeights& weights,
                   const nlohmann::json& quantization, Quantized quantized) {
  const QuantizedReport report = set_encoded_states(model, *made.family, weights.encoded, quantized);
  const DType dtype = *parse_dtype(made.settings.at("dtype").get<std::string>());
  if (const std::string text = report.to_string(dtype); !text.empty())
    log_info("weights quantized by {}: {}; activations are not quantized", quantized::method_of(quantization),
             text);
}

// Chooses the settings that the tensors tell, unless `changes` have them.
void adapt(FamilySettings& made, const CheckpointWeights& weights, const Settings& changes) {
  if (!made.family->hugging_face->adapt) return;
  made.family->hugging_face->adapt(made.settings, [&](const std::string& name) {
    return weights.tensors.contains(name) || weights.unsupported.contains(name);
  });
  take_changes(made, changes);
}

// Removes the prefix of names from the tensors of a base model, whose names in the zoo have none.
void remove_prefix(const FamilySettings& made, CheckpointWeights& weights) {
  const HuggingFaceForm& form = *made.family->hugging_face;
  if (!form.is_bare || !form.is_bare(made.settings)) return;
  NamedTensors tensors;
  for (auto& [name, tensor] : weights.tensors)
    tensors.emplace(name.starts_with(form.prefix) ? name.substr(form.prefix.size()) : name,
                    std::move(tensor));
  weights.tensors = std::move(tensors);
}

}  // namespace

void take_changes(FamilySettings& read, const Settings& changes) {
  const auto positions = read.settings.find("max_position_embeddings");
  if (positions != read.settings.end() && *positions > kDefaultPositions &&
      read.family->network.settings.contains("cache_positions") &&
      !changes.contains("max_position_embeddings"))
    read.settings["cache_positions"] = kDefaultPositions;
  for (const auto& [name, text] : changes) read.settings[name] = text;
  read.settings = read.family->network.complete(read.family->name, read.settings);
}

std::unique_ptr<Model> make_uninitialized(const FamilySettings& made) {
  const init::SkipInit skip_init;
  return made.family->network.make(made.family->name, made.settings, 0);
}

bool is_model_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(path); }

std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes,
                                    MappedFiles* files, const std::vector<std::string>& ignored,
                                    Quantized quantized) {
  const std::filesystem::path config_file = folder / "config.json";
  if (!std::filesystem::exists(config_file))
    fail("{}: there is no config.json: expected a folder as transformers saves a model", folder.string());
  const nlohmann::json whole_config = read_json_file(config_file);
  const nlohmann::json quantization = quantization_of(whole_config, folder);
  nlohmann::json config = text_part(whole_config);
  FamilySettings made = read_config(config, config_file);
  with_context([&] { take_changes(made, changes); }, [&] { return folder.string(); });
  const bool tied = made.settings.value("tie_word_embeddings", false),
             asked_for = changes.contains("tie_word_embeddings");
  const Head head = !tied ? Head::kOwn : asked_for ? Head::kTiedAnyway : Head::kTied;
  CheckpointWeights weights = read_weights(folder, *made.family, head, quantization, files);
  with_context([&] { adapt(made, weights, changes); }, [&] { return folder.string(); });
  remove_prefix(made, weights);
  std::unique_ptr<Model> model = with_context(
      [&] {
        check_layers(made, weights.tensors.size() + weights.encoded.size() + weights.unsupported.size());
        // Shapes are compared with those of the weights before memory is allocated for any of them.
        auto empty = with_context([&] { return make_uninitialized(made); },
                                  [] { return "in the model that config.json says"; });
        stack_experts(*empty, *made.family, weights);
        turn_experts(*empty, *made.family, weights);
        add_stand_ins(*empty, *made.family, weights);
        split_fused(*empty, *made.family, weights.tensors);
        leave_out_extra_tensors(*empty, weights, ignored);
        load_whole_state_dict(*empty, weights.tensors, remedy_for(*empty, weights.tensors));
        set_quantized(*empty, made, weights, quantization, quantized);
        return empty;
      },
      [&] { return folder.string(); });
  // Export writes plain weights.
  for (const char* entry : {"quantization_config", "compression_config"}) config.erase(entry);
  model->metadata["config.json"] = config.dump();
  text::attach_tokenizer_files(*model, folder);
  add_vectors_of_folder(*model, folder);
  return model;
}

}  // namespace genesis::models::hugging_face
