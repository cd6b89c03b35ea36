#include "models/formats/hugging_face/adapter.h"

#include <fmt/ranges.h>

#include <set>

#include "models/families.h"
#include "models/formats/hugging_face/adapter_config.h"
#include "models/formats/hugging_face/adapter_fused.h"
#include "models/formats/hugging_face/adapter_weights.h"
#include "schema/file/io/atomic_folder.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/graph/state_storage.h"
#include "schema/messages/log.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = kAdapterPrefix;
const std::string kParts[] = {std::string(passes::kLoraA), std::string(passes::kLoraB)};

// Returns "model.layers.0.self_attn.q_proj" for "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string layer_of(const std::string& tensor) {
  if (!tensor.starts_with(kPrefix)) return "";
  for (const std::string_view part : kParts)
    if (tensor.ends_with(part))
      return tensor.substr(kPrefix.size(), tensor.size() - kPrefix.size() - part.size());
  return "";
}

// A kind of unsupported tensor, recognized by its name in PEFT.
struct OtherTensor {
  std::string_view part;  // substring of its name
  const char* meaning;
};
constexpr OtherTensor kOthers[] = {
    {".lora_magnitude_vector", "it is of DoRA, and the model has no such layer"},
    {".lora_embedding_", "it adapts an embedding, and the model has no such layer"},
    {".lora_B.bias",
     "it is a bias of LoRA (lora_bias), and the model has no such layer, or none with a bias"},
    {".modules_to_save",
     "it is a module that was trained whole (modules_to_save), and the model has none such"},
    {".token_adapter", "it holds trained tokens (trainable_token_indices), which are not supported"},
    {".bias",
     "it is a trained bias (bias) that the configuration does not name, or the model does not have"}};

// Returns the state whose weight a tensor beside the adapter is; -1 if it is not a weight. PEFT also saves embeddings and heads
// that have an adapter or were resized.
int32_t weight_of(const Model& model, const std::string& tensor) {
  constexpr std::string_view kBase = ".base_layer.weight", kWeight = ".weight";
  if (!tensor.starts_with(kPrefix) || !tensor.ends_with(kWeight)) return -1;
  const std::string name = tensor.substr(kPrefix.size());
  if (!name.ends_with(kBase)) return model.find_state(name);
  return model.find_state(name.substr(0, name.size() - kBase.size()) + std::string(kWeight));
}

bool is_same(const Model& model, int32_t weight, const Tensor& tensor) {
  const State& state = model.state(weight);
  return !state.encoded && state.type.shape == tensor.type().shape && is_float(tensor.type().dtype) &&
         initial_value(state).to_doubles() == tensor.to(state.type.dtype).to_doubles();
}

// Describes a tensor that is neither A nor B of a layer. Returns "" if the model has the same values, so that the tensor can be
// ignored.
std::string problem_of(const Model& model, const std::string& name, const Tensor& tensor) {
  const int32_t weight = weight_of(model, name);
  if (weight >= 0 && is_same(model, weight, tensor)) return "";
  if (weight >= 0 || name.ends_with(".base_layer.weight"))
    return fmt::format(
        "{}: it is a weight of the base model that PEFT has saved beside the adapter, as it does with "
        "embeddings and heads that were trained or resized, and it is another than the model's: merge the "
        "adapter with PEFT (merge_and_unload) and import that model, or, where those weights were not "
        "trained, save the adapter with save_embedding_layers=False",
        name);
  for (const auto& [part, meaning] : kOthers)
    if (name.find(part) != std::string::npos)
      return fmt::format("{}: {}: merge the adapter with PEFT (merge_and_unload) and import that model", name,
                         meaning);
  return name;
}

std::vector<std::string> layers_of(const Model& model, const SafeTensors& file, const fs::path& path) {
  std::set<std::string> layers;
  std::vector<std::string> others;
  for (const auto& [name, tensor] : file.tensors) {
    if (const std::string layer = layer_of(name); !layer.empty())
      layers.insert(layer);
    else if (std::string problem = problem_of(model, name, tensor); !problem.empty())
      others.push_back(std::move(problem));
  }
  if (!others.empty()) fail("{}: no tensors of LoRA: {}", path.string(), fmt::join(others, "; "));
  return {layers.begin(), layers.end()};
}

void set_values(Model& model, const SafeTensors& file, const fs::path& path) {
  std::vector<std::string> wrong;
  for (const std::string& layer : passes::lora_layers(model))
    for (const std::string& part : kParts) {
      const int32_t state = model.find_state(layer + part);
      const TensorType& type = model.state(state).type;
      const auto at = file.tensors.find(std::string(kPrefix) + layer + part);
      if (at == file.tensors.end())
        wrong.push_back(layer + part + " is missing");
      else if (!(at->second.type().shape == type.shape) || !is_float(at->second.type().dtype))
        wrong.push_back(fmt::format("{}{} is {}, expected {}", layer, part, at->second.type().to_string(),
                                    type.to_string()));
      else
        model.set_initial(state, at->second.to(DType::f32));
    }
  if (!wrong.empty()) fail("{} does not fit: {}", path.string(), fmt::join(wrong, "; "));
}

// Refuses adapters saved as pickle files, which can run code.
void check_format(const fs::path& folder) {
  constexpr const char* kPickle = "adapter_model.bin";
  if (fs::exists(folder / kTensors) || !fs::exists(folder / kPickle)) return;
  fail(
      "{}: there is no {}, and {} is a format of PyTorch that is not read: save the adapter as safetensors, "
      "with PeftModel.from_pretrained(BASE, FOLDER).save_pretrained(OTHER) of PEFT",
      folder.string(), kTensors, kPickle);
}

// Returns the name of the base model: `given`, else the name that transformers 4 wrote into config.json, else null, which PEFT
// uses for an unknown base.
nlohmann::json base_of(const Model& model, const std::string& given) {
  if (!given.empty()) return given;
  const auto at = model.metadata.find("config.json");
  const nlohmann::json config =
      at == model.metadata.end() ? nlohmann::json() : try_parse_json_text(at->second);
  const nlohmann::json origin =
      config.is_object() ? config.value("_name_or_path", nlohmann::json()) : nlohmann::json();
  return origin.is_string() && origin != "" ? origin : nlohmann::json();
}

// Returns the matrices that the checkpoints of the model's family hold as one. PEFT adapts such a matrix as a whole.
std::vector<FusedWeights> fused_weights(const Model& model) {
  const auto name = model.metadata.find("architecture");
  const Family* family = name == model.metadata.end() ? nullptr : find_family(name->second);
  return family && family->hugging_face ? family->hugging_face->fused : std::vector<FusedWeights>();
}

// Returns the settings of the adapters of `layers`. `whole_of`: the fused layers, which the file has, of parts.
passes::LoraOptions options_for(const AdapterConfig& config, const std::vector<std::string>& layers,
                                const std::map<std::string, std::string>& whole_of) {
  std::set<std::string> stored;
  for (const std::string& layer : layers) {
    const auto whole = whole_of.find(layer);
    stored.insert(whole == whole_of.end() ? layer : whole->second);
  }
  passes::LoraOptions options = config.options_for({stored.begin(), stored.end()});
  options.targets = layers;
  return options_of_parts(std::move(options), whole_of);
}

}  // namespace

bool is_adapter_folder(const fs::path& path) { return fs::is_regular_file(path / kConfig); }

void load_adapter(Model& model, const fs::path& folder) {
  const AdapterConfig config(folder / kConfig);
  const fs::path path = folder / kTensors;
  check_format(folder);
  SafeTensors file = read_safetensors(path);
  if (file.tensors.empty()) fail("{}: there is no tensor in it", path.string());
  Model with_adapter(model);
  std::map<std::string, std::string> whole_of;
  with_context(
      [&] {
        whole_of = split_adapters(model, fused_weights(model), file);
        change_weights(with_adapter, file, config);
      },
      [&] { return path.string(); });
  const passes::LoraOptions options = options_for(config, layers_of(with_adapter, file, path), whole_of);
  if (config.is_fan_in_fan_out() && !is_stored_in_out(model))
    log_warning(
        "{}: fan_in_fan_out is passed over, as PEFT does: no weight of this model is stored [in, out]",
        (folder / kConfig).string());
  // Without targets add_lora() would take all layers.
  if (!options.targets.empty()) {
    with_context([&] { passes::add_lora(with_adapter, options); },
                 [&] { return "while adding the adapter " + folder.string(); });
    set_values(with_adapter, file, path);
  }
  model = with_adapter;
}

void save_adapter(const Model& model, const fs::path& folder, const std::string& base, bool replace) {
  std::optional<passes::LoraOptions> options = passes::lora_of(model);
  if (!options) fail("the model has no LoRA adapters to write");
  options->targets = passes::lora_layers(model);
  SafeTensors file{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (const std::string& layer : options->targets)
    for (const std::string& part : kParts) {
      file.tensors.emplace(std::string(kPrefix) + layer + part,
                           initial_value(model.state(model.find_state(layer + part))));
    }
  join_adapters(model, fused_weights(model), file, *options);
  make_folders_around(folder);
  AtomicFolder written(folder, replace,
                       [](const fs::path& name) { return name == kConfig || name == kTensors; });
  nlohmann::ordered_json config = adapter_config_of(model, *options, base_of(model, base));
  add_changed_weights(model, file, config);
  write_safetensors(written.files() / kTensors, file);
  write_file_atomically(written.files() / kConfig, config.dump(2) + "\n");
  written.commit();
}

}  // namespace genesis::models::hugging_face
