#include "models/hugging_face/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/hugging_face/json_file.h"
#include "schema/core/type_limits.h"
#include "schema/file/foreign/safetensors.h"
#include "schema/file/io/atomic_folder.h"
#include "schema/file/io/atomic_write.h"
#include "schema/graph/state_storage.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
const std::string kParts[] = {std::string(passes::kLoraA), std::string(passes::kLoraB)};

// Settings that change what an adapter computes, with the values that leave it plain LoRA.
// Some ways to begin an adapter take its share out of the weights beside it, so that those of the base model do not go with it.
// Empty where that is not so.
std::string changes_weights(const nlohmann::json& config) {
  constexpr std::string_view kPlain[] = {"gaussian", "eva", "orthogonal"};
  const auto at = config.find("init_lora_weights");
  if (at == config.end() || !at->is_string() ||
      std::ranges::find(kPlain, at->get<std::string>()) != std::end(kPlain))
    return "";
  return fmt::format(
      "init_lora_weights = {}, which has changed the weights of the base model (PEFT writes a plain adapter "
      "with "
      "save_pretrained(path_initial_model_for_weight_conversion=...))",
      at->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::vector<std::string> unsupported(const nlohmann::json& config) {
  std::vector<std::string> found;
  const auto expect = [&](const char* key, const nlohmann::json& plain) {
    const auto at = config.find(key);
    if (at == config.end() || at->is_null() || *at == plain) return;
    if ((at->is_object() || at->is_array()) && at->empty()) return;
    found.push_back(fmt::format("{} = {}", key, at->dump()));
  };
  expect("peft_type", "LORA");
  expect("bias", "none");
  expect("use_dora", false);
  for (const char* key : {"lora_bias", "use_qalora", "use_bdlora"}) expect(key, false);
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication",
                          "alora_invocation_tokens", "trainable_token_indices", "target_parameters"})
    expect(key, nullptr);
  if (const std::string how = changes_weights(config); !how.empty()) found.push_back(how);
  return found;
}

double number(const nlohmann::json& config, const char* key, double standard) {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return standard;
  if (!at->is_number() || !fits_f32(at->get<double>()))
    fail("'{}' is {}, expected a number that f32 can hold", key, at->dump());
  return at->get<double>();
}

passes::LoraOptions read_config(const fs::path& folder) {
  const nlohmann::json config = read_json(folder / kConfig);
  return with_context(
      [&] {
        if (!config.is_object()) fail("expected an object");
        if (const auto found = unsupported(config); !found.empty())
          fail("this adapter is more than plain LoRA, which is what is supported: {}",
               fmt::join(found, ", "));
        const double rank = number(config, "r", 8);
        if (!(rank >= 1 && rank <= 65536 && rank == std::floor(rank)))
          fail("'r' is {}, expected a rank", rank);
        passes::LoraOptions options{.rank = static_cast<int64_t>(rank),
                                    .alpha = number(config, "lora_alpha", 8),
                                    .dropout = number(config, "lora_dropout", 0)};
        // Rank-stabilised LoRA divides by the root of the rank; with another alpha it is the same.
        const auto stable = config.find("use_rslora");
        if (stable != config.end() && *stable == true) options.alpha *= std::sqrt(rank);
        return options;
      },
      [&] { return "in " + (folder / kConfig).string(); });
}

// "model.layers.0.self_attn.q_proj" of "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string layer_of(const std::string& tensor) {
  if (!tensor.starts_with(kPrefix)) return "";
  for (const std::string_view part : kParts)
    if (tensor.ends_with(part))
      return tensor.substr(kPrefix.size(), tensor.size() - kPrefix.size() - part.size());
  return "";
}

std::vector<std::string> layers_of(const SafeTensors& file, const fs::path& path) {
  std::set<std::string> layers;
  std::vector<std::string> others;
  for (const auto& [name, tensor] : file.tensors) {
    const std::string layer = layer_of(name);
    layer.empty() ? others.push_back(name) : void(layers.insert(layer));
  }
  if (!others.empty()) fail("{}: no tensors of LoRA: {}", path.string(), fmt::join(others, ", "));
  if (layers.empty()) fail("{}: there is no tensor in it", path.string());
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

// As transformers 4 wrote into config.json where a model came from; PEFT has null where nobody knows.
nlohmann::json base_of(const Model& model, const std::string& given) {
  if (!given.empty()) return given;
  const auto config = model.metadata.find("config.json");
  const nlohmann::json origin =
      config == model.metadata.end()
          ? nlohmann::json()
          : try_parse_json_text(config->second).value("_name_or_path", nlohmann::json());
  return origin.is_string() && origin != "" ? origin : nlohmann::json();
}

nlohmann::ordered_json config_of(const passes::LoraOptions& options, const Model& model,
                                 const std::string& base) {
  std::set<std::string> targets;
  for (const std::string& layer : passes::lora_layers(model)) targets.insert(layer);
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", base_of(model, base)},
                                {"inference_mode", true},
                                {"r", options.rank},
                                {"lora_alpha", options.alpha},
                                {"lora_dropout", options.dropout},
                                {"bias", "none"},
                                {"use_rslora", false},
                                {"use_dora", false},
                                {"fan_in_fan_out", model.find_state("transformer.wte.weight") >= 0}};
  config["target_modules"] = targets;
  return config;
}

}  // namespace

bool is_adapter_folder(const fs::path& path) { return fs::is_regular_file(path / kConfig); }

void load_adapter(Model& model, const fs::path& folder) {
  passes::LoraOptions options = read_config(folder);
  const fs::path path = folder / kTensors;
  const SafeTensors file = read_safetensors(path);
  options.targets = layers_of(file, path);
  Model with_adapter(model);
  with_context([&] { passes::add_lora(with_adapter, options); },
               [&] { return "while adding the adapter " + folder.string(); });
  set_values(with_adapter, file, path);
  model = with_adapter;
}

void save_adapter(const Model& model, const fs::path& folder, const std::string& base, bool replace) {
  const std::optional<passes::LoraOptions> options = passes::lora_of(model);
  if (!options) fail("the model has no LoRA adapters to write");
  SafeTensors file{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (const std::string& layer : passes::lora_layers(model))
    for (const std::string& part : kParts) {
      file.tensors.emplace(std::string(kPrefix) + layer + part,
                           initial_value(model.state(model.find_state(layer + part))));
    }
  make_folders_around(folder);
  AtomicFolder written(folder, replace,
                       [](const fs::path& name) { return name == kConfig || name == kTensors; });
  write_safetensors(written.files() / kTensors, file);
  write_file_atomically(written.files() / kConfig, config_of(*options, model, base).dump(2) + "\n");
  written.commit();
}

}  // namespace genesis::models::hugging_face
