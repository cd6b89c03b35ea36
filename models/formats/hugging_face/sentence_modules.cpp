#include "models/formats/hugging_face/sentence_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families.h"
#include "models/formats/hugging_face/attached_name.h"
#include "schema/file/json_text.h"
#include "schema/file/attached_files.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/messages/log.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kModules = "modules.json", *kPrompts = "config_sentence_transformers.json",
                     *kLimits = "sentence_bert_config.json";
// Names that the file of limits has in folders of older versions.
constexpr const char* kOlderLimits[] = {"sentence_roberta_config.json", "sentence_distilbert_config.json",
                                        "sentence_xlm-roberta_config.json", "sentence_mpnet_config.json"};
constexpr const char* kPooling = "1_Pooling/config.json";
constexpr uint64_t kMaxBytes = 16 << 20;
constexpr size_t kMaxDense = 16;  // linear layers behind the pooling

// Pairs of the class in PyTorch and the name in VectorSettings.
constexpr std::pair<const char*, const char*> kActivations[] = {
    {"torch.nn.modules.linear.Identity", "identity"},
    {"torch.nn.modules.activation.Tanh", "tanh"},
    {"torch.nn.modules.activation.ReLU", "relu"},
    {"torch.nn.modules.activation.GELU", "gelu"},
    {"torch.nn.modules.activation.Sigmoid", "sigmoid"}};

// The name of a class behind its last dot: "Pooling" of "sentence_transformers.models.Pooling".
std::string class_in(const json& module) {
  const json type = module.is_object() ? module.value("type", json()) : json();
  const std::string text = type.is_string() ? type.get<std::string>() : "";
  return text.starts_with("sentence_transformers.") ? text.substr(text.rfind('.') + 1) : text;
}

class ModulesReader {
 public:
  explicit ModulesReader(const fs::path& folder) : folder_(folder) {}

  SentenceModules run() {
    read_modules(read(kModules));
    if (has(kPrompts)) read_prompts(read(kPrompts));
    if (has(kLimits)) read_limits(read(kLimits));
    for (const char* name : kOlderLimits)
      if (has(name)) refuse(fmt::format("the file {}: rename it to {}", name, kLimits));
    if (!problems_.empty())
      fail("{}: these settings of sentence-transformers are not supported:\n  {}", folder_.string(),
           fmt::join(problems_, "\n  "));
    return std::move(result_);
  }

 private:
  bool has(const std::string& name) const { return fs::exists(folder_ / name); }
  json read(const std::string& name) {
    result_.files.push_back(name);
    return read_json_file(folder_ / name);
  }
  void refuse(const std::string& problem) { problems_.push_back(problem); }

  void read_modules(const json& modules) {
    if (!modules.is_array() || modules.empty()) return refuse("modules.json is no list of modules");
    for (size_t i = 0; i < modules.size(); ++i) {
      const std::string name = class_in(modules[i]);
      const json path = modules[i].is_object() ? modules[i].value("path", json("")) : json();
      const bool is_last = i + 1 == modules.size();
      if (i == 0   ? name == "Transformer"
          : i == 1 ? name == "Pooling"
                   : name == "Dense" || (name == "Normalize" && is_last))
        read_module(name, path.is_string() ? path.get<std::string>() : "");
      else
        refuse(fmt::format("modules.json: the module '{}' at place {}", name, i));
    }
    if (modules.size() > kMaxDense) refuse("modules.json: more than 16 modules");
    if (modules.size() < 2) refuse("modules.json: a model without the module Pooling");
  }

  void read_module(const std::string& name, const std::string& path) {
    if (name == "Transformer" && !path.empty())
      return refuse(fmt::format("modules.json: the module Transformer in the folder '{}'", path));
    if (name == "Normalize") result_.settings.normalize = true;
    if (name != "Pooling" && name != "Dense") return;
    if (path.empty() || fs::path(path) != fs::path(path).filename() || path == ".." || path == ".")
      return refuse(fmt::format("modules.json: the folder '{}' of the module {}", path, name));
    const std::string file = path + "/config.json";
    if (name == "Pooling" && file != kPooling)
      return refuse(
          fmt::format("modules.json: the folder '{}' of the module Pooling, expected 1_Pooling", path));
    if (!has(file)) return refuse(fmt::format("there is no {} of the module {}", file, name));
    const json config = read(file);
    if (!config.is_object()) return refuse(file + ": expected an object");
    SettingsReader r(config, file + ": ");
    name == "Pooling" ? read_pooling(r) : read_dense(r, path);
    r.refuse_unknown();
    problems_.insert(problems_.end(), r.problems().begin(), r.problems().end());
  }

  void read_pooling(SettingsReader& r) {
    r.ignore({"word_embedding_dimension", "embedding_dimension"});
    static const std::vector<std::pair<std::string, std::string>> kFlags = {
        {"pooling_mode_cls_token", "cls"},
        {"pooling_mode_max_tokens", "max"},
        {"pooling_mode_mean_tokens", "mean"},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
        {"pooling_mode_weightedmean_tokens", "weightedmean"},
        {"pooling_mode_lasttoken", "lasttoken"}};
    std::vector<std::string>& modes = result_.settings.pooling;
    modes.clear();
    const json mode = r.get("pooling_mode");  // newer versions have a name, or several
    for (const auto& [flag, name] : kFlags) {
      const bool is_listed = mode.is_array() && std::ranges::find(mode, json(name)) != mode.end();
      if (r.get(flag) == true || mode == name || is_listed) modes.push_back(name);
    }
    const size_t named = mode.is_array() ? mode.size() : mode.is_string() ? 1 : 0;
    if (named > modes.size()) r.refuse("pooling_mode", fmt::format("{}", fmt::join(pooling_modes(), ", ")));
    if (modes.empty() && mode.is_null() && !r.has("pooling_mode_mean_tokens")) modes = {"mean"};
    if (modes.empty()) r.add_problem("no mode of pooling is on");
    r.must_be_one_of("include_prompt", {true, false});
    result_.settings.pooling_includes_prompt = r.get("include_prompt") != false;
  }

  void read_dense(SettingsReader& r, const std::string& path) {
    VectorSettings& s = result_.settings;
    const size_t layer = s.dense_features.size();
    if (path != dense_folder(layer))
      r.add_problem(
          fmt::format("the folder '{}' of a module Dense, expected '{}'", path, dense_folder(layer)));
    r.ignore({"in_features"});
    r.copy_size("out_features", "out_features");
    r.copy_flag("bias", "bias", true);
    s.dense_features.push_back(std::max<int64_t>(1, r.size("out_features")));
    const json activation = r.given("activation_function", "torch.nn.modules.activation.Tanh");
    const auto* found =
        std::ranges::find_if(kActivations, [&](const auto& row) { return activation == row.first; });
    s.dense_activations.emplace_back(found == std::end(kActivations) ? "identity" : found->second);
    if (found == std::end(kActivations)) r.refuse("activation_function", "an activation that is known");
    for (const char* key : {"module_input_name", "module_output_name"})
      r.must_be_one_of(key, {"sentence_embedding", nullptr});
    const bool bias = r.settings().value("bias", true);
    if (layer > 0 && bias != s.dense_bias) r.add_problem("only some of the modules Dense have a bias");
    s.dense_bias = bias;
    read_weights(path, layer, bias);
  }

  void read_weights(const std::string& path, size_t layer, bool bias) {
    const std::string file = path + "/model.safetensors";
    if (!has(file))
      return refuse(
          fmt::format("there is no {}; weights in other formats are saved anew by save() of "
                      "sentence-transformers",
                      file));
    const SafeTensors weights = read_safetensors(folder_ / file);
    for (const char* part : {"weight", "bias"}) {
      const auto found = weights.tensors.find(std::string("linear.") + part);
      if (found != weights.tensors.end())
        result_.dense.emplace(dense_state(layer, part), found->second);
      else if (bias || part == std::string("weight"))
        refuse(fmt::format("{} has no tensor linear.{}", file, part));
    }
  }

  void read_prompts(const json& config) {
    if (!config.is_object()) return refuse(std::string(kPrompts) + ": expected an object");
    SettingsReader r(config, std::string(kPrompts) + ": ");
    r.ignore({"__version__", "default_prompt_name"});
    r.must_be_one_of("model_type", {"SentenceTransformer"});
    r.must_be_one_of("similarity_fn_name", {"cosine", "dot", "euclidean", "manhattan", nullptr});
    if (r.has("prompts") && !r.get("prompts").is_object()) r.refuse("prompts", "an object of texts");
    const json& name = r.get("default_prompt_name");
    if (!name.is_null() && !(r.get("prompts").is_object() && name.is_string() &&
                             r.get("prompts").contains(name.get<std::string>())))
      r.refuse("default_prompt_name", "the name of one of the prompts");
    r.refuse_unknown();
    problems_.insert(problems_.end(), r.problems().begin(), r.problems().end());
  }

  void read_limits(const json& config) {
    if (!config.is_object()) return refuse(std::string(kLimits) + ": expected an object");
    SettingsReader r(config, std::string(kLimits) + ": ");
    const json& longest = r.get("max_seq_length");
    if (!longest.is_null() && (!longest.is_number_integer() || longest < 1))
      r.refuse("max_seq_length", "a number of tokens");
    r.must_be_one_of("do_lower_case", {false});
    r.must_be_one_of("transformer_task", {"feature-extraction"});
    r.must_be_one_of("module_output_name", {"token_embeddings"});
    r.must_be_one_of("modality_config",
                     {{{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}}});
    r.refuse_unknown();
    problems_.insert(problems_.end(), r.problems().begin(), r.problems().end());
  }

  const fs::path folder_;
  SentenceModules result_;
  std::vector<std::string> problems_;
};

void set_values(Model& model, const NamedTensors& dense) {
  for (const auto& [name, tensor] : dense) {
    const int32_t state = model.find_state(name);
    if (state < 0) fail("the module of '{}' has a bias that its config.json does not have", name);
    const TensorType& type = model.state(state).type;
    if (!(type.shape == tensor.type().shape) || !is_float(tensor.dtype()))
      fail("{} is {}, expected {}", name, tensor.type().to_string(), type.to_string());
    model.set_initial(state, tensor.to(type.dtype));
  }
}

}  // namespace

std::string dense_folder(size_t layer) { return fmt::format("{}_Dense", layer + 2); }

// Compares whole names: those of attached files are not trusted, and become paths.
bool is_sentence_file(const std::string& name) {
  for (size_t layer = 0; layer < kMaxDense; ++layer)
    for (const char* file : {"/config.json", "/model.safetensors"})
      if (name == dense_folder(layer) + file) return true;
  return name == kModules || name == kPrompts || name == kLimits || name == kPooling;
}

std::optional<SentenceModules> read_sentence_modules(const fs::path& folder) {
  if (!fs::exists(folder / kModules)) return std::nullopt;
  return ModulesReader(folder).run();
}

void add_vectors_of_folder(Model& model, const fs::path& folder) {
  if (const auto modules = read_sentence_modules(folder)) {
    with_context(
        [&] {
          add_vectors(model, modules->settings);
          set_values(model, modules->dense);
        },
        [&] { return folder.string(); });
    for (const std::string& name : modules->files)
      attach_file(model, attached_name(name), read_regular_file(folder / name, kMaxBytes));
    return;
  }
  const json head = parse_json_text(model.metadata.at("config")).value("head", json());
  if (!model.find_entry("hidden") || (head != "none" && head != "masked_lm")) return;
  log_info(
      "{} has no modules.json of sentence-transformers: vectors of its texts are the means of the features "
      "of "
      "their tokens (genesis-build --pooling chooses another pooling)",
      folder.string());
  add_vectors(model, {});
}

void attach_sentence_modules(Model& model, const VectorSettings& settings, int64_t features) {
  if (!settings.dense_features.empty()) fail("modules Dense are read from their files and not made anew");
  json modules = {
      {{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
      {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}};
  if (settings.normalize)
    modules.push_back({{"idx", 2},
                       {"name", "2"},
                       {"path", "2_Normalize"},
                       {"type", "sentence_transformers.models.Normalize"}});
  json pooling = {{"word_embedding_dimension", features},
                  {"include_prompt", settings.pooling_includes_prompt}};
  static const std::vector<std::string> kFlags = {
      "cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"};
  for (size_t i = 0; i < kFlags.size(); ++i)
    pooling["pooling_mode_" + kFlags[i]] =
        std::ranges::find(settings.pooling, pooling_modes()[i]) != settings.pooling.end();
  attach_file(model, kModules, modules.dump(2) + "\n");
  attach_file(model, attached_name(kPooling), pooling.dump(2) + "\n");
}

}  // namespace genesis::models::hugging_face
