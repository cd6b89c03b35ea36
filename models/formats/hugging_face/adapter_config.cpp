#include "models/formats/hugging_face/adapter_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "models/families.h"
#include "schema/file/json_events.h"
#include "schema/file/json_text.h"
#include "schema/file/object_reader.h"
#include "schema/messages/log.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

constexpr const char* kRanks = "rank_pattern";
constexpr const char* kAlphas = "alpha_pattern";
constexpr uint64_t kMaxBytes = 16 << 20;
constexpr double kMaxRank = 65536;

// Records the order of the keys of inner objects, in which the first matching expression counts; nlohmann::json sorts keys.
class KeyOrder final : public JsonEvents {
 public:
  bool key(string_t& name) override {
    if (depth() == 1) member_ = name;
    if (depth() == 2) keys[member_].push_back(name);
    return true;
  }
  std::map<std::string, std::vector<std::string>> keys;

 private:
  std::string member_;
};

// Settings of PEFT that say where the adapter came from, how it was initialized, or which layers it has, which its tensors show,
// too. fan_in_fan_out is ignored because the layout of GPT-2's weights is known.
const std::set<std::string>& settings_without_effect() {
  static const std::set<std::string> names = {"auto_mapping",
                                              "base_model_name_or_path",
                                              "corda_config",
                                              "eva_config",
                                              "exclude_modules",
                                              "fan_in_fan_out",
                                              "inference_mode",
                                              "layers_pattern",
                                              "layers_to_transform",
                                              "loftq_config",
                                              "lora_ga_config",
                                              "megatron_config",
                                              "megatron_core",
                                              "peft_version",
                                              "qalora_group_size",
                                              "revision",
                                              "runtime_config",
                                              "target_modules",
                                              "task_type"};
  return names;
}

// Settings that change what an adapter computes in a way that is not supported.
constexpr const char* kBeyondLora[] = {"use_qalora",
                                       "use_bdlora",
                                       "layer_replication",
                                       "alora_invocation_tokens",
                                       "trainable_token_indices",
                                       "target_parameters",
                                       "arrow_config",
                                       "velora_config",
                                       "monteclora_config",
                                       "kasa_config"};
constexpr const char* kFlags[] = {"use_dora",   "lora_bias",      "use_qalora",
                                  "use_rslora", "fan_in_fan_out", "ensure_weight_tying"};

// Returns the problem if the adapter's initialization has changed the weights of the base model, so that the original ones do not
// fit the adapter; else "".
std::string changes_weights(const json& config) {
  constexpr std::string_view kPlain[] = {"gaussian", "eva", "orthogonal"};
  const auto at = config.find("init_lora_weights");
  if (at == config.end() || !at->is_string() ||
      std::ranges::find(kPlain, at->get<std::string>()) != std::end(kPlain))
    return "";
  return fmt::format(
      "init_lora_weights = {}, which has changed the weights of the base model (PEFT writes a plain adapter "
      "with save_pretrained(path_initial_model_for_weight_conversion=...))",
      shown_json(*at));
}

std::vector<std::string> unsupported(ObjectReader& config) {
  std::vector<std::string> found;
  const auto add = [&](const char* key) {
    found.push_back(fmt::format("{} = {}", key, shown_json(config.get(key))));
  };
  const auto expect = [&](const char* key, std::initializer_list<const char*> known) {
    const auto is_value = [&](const char* value) { return config.get(key) == value; };
    if (config.has(key) && std::ranges::none_of(known, is_value)) add(key);
  };
  expect("peft_type", {"LORA"});
  expect("bias", {"none", "all", "lora_only"});
  for (const char* key : kBeyondLora)
    if (!is_neutral_json(config.get(key))) add(key);
  config.ignore({"init_lora_weights"});
  if (const std::string how = changes_weights(config.entries()); !how.empty()) found.push_back(how);
  return found;
}

void warn_of_unknown(const ObjectReader& config, const std::filesystem::path& file) {
  std::vector<std::string> unknown;
  for (const std::string& key : config.unknown())
    if (!settings_without_effect().contains(key))
      unknown.push_back(fmt::format("{} = {}", key, shown_json(config.entries()[key])));
  if (!unknown.empty())
    log_warning("{}: these settings are not known and are passed over: {}", file.string(),
                fmt::join(unknown, ", "));
}

std::vector<std::string> saved_modules(ObjectReader& config) {
  const json& named = config.get("modules_to_save");
  if (named.is_null()) return {};
  std::vector<std::string> modules;
  for (const json& name : named.is_array() ? named : json::array({named})) {
    if (!name.is_string()) fail("'modules_to_save' is {}, expected names of modules", shown_json(named));
    modules.push_back(name);
  }
  return modules;
}

void check_rank(double rank, const std::string& name) {
  if (!(rank >= 1 && rank <= kMaxRank && rank == std::floor(rank)))
    fail("'{}' is {}, expected a rank, a whole number from 1 to {}", name, rank, kMaxRank);
}

// Returns an expression that matches the name of this layer and of no other layer of the model.
std::string exactly(const std::string& layer) {
  std::string expression;
  for (const char c : layer) {
    if (std::ispunct(static_cast<unsigned char>(c)) && c != '_') expression += '\\';
    expression += c;
  }
  return expression;
}

}  // namespace

bool is_stored_in_out(const Model& model) {
  return std::ranges::any_of(families(), [&](const Family& family) {
    return family.hugging_face && !family.hugging_face->stored_in_out.empty() &&
           model.find_state(family.hugging_face->embedding) >= 0;
  });
}

AdapterConfig::AdapterConfig(const std::filesystem::path& file) : file_(file) {
  const std::string text = read_regular_file(file, kMaxBytes);
  const json config = parse_json_object(text, file.string());
  with_context([&] { read(config, text); }, [&] { return "in " + file.string(); });
}

void AdapterConfig::read(const json& entries, const std::string& text) {
  ObjectReader config(entries);
  if (const auto found = unsupported(config); !found.empty())
    fail("this adapter has settings that are not supported: {}", fmt::join(found, ", "));
  rank_ = config.number("r").value_or(rank_);
  check_rank(rank_, "r");
  alpha_ = config.number("lora_alpha").value_or(alpha_);
  dropout_ = config.number("lora_dropout").value_or(dropout_);
  for (const char* key : kFlags) config.flag(key);
  stabilized_ = config.flag("use_rslora").value_or(false);
  fan_in_fan_out_ = config.flag("fan_in_fan_out").value_or(false);
  ties_weights_ = config.flag("ensure_weight_tying").value_or(false);
  const json& bias = config.get("bias");
  trains_biases_ = !bias.is_null() && bias != "none";
  saved_ = saved_modules(config);
  KeyOrder order;
  read_json_events(text, order);
  ranks_ = read_pattern(config, kRanks, order.keys[kRanks]);
  alphas_ = read_pattern(config, kAlphas, order.keys[kAlphas]);
  for (const auto& [expression, rank] : ranks_) check_rank(rank, kRanks);
  warn_of_unknown(config, file_);
}

bool AdapterConfig::saves(const std::string& module) const {
  return std::ranges::any_of(saved_, [&](const std::string& name) { return module.ends_with(name); });
}

AdapterConfig::Pattern AdapterConfig::read_pattern(ObjectReader& config, const char* key,
                                                   const std::vector<std::string>& order) {
  constexpr size_t kMax = 10'000;
  const json* members = config.object(key);
  if (!members) return {};
  if (members->size() > kMax) fail("'{}' has {} members, the limit is {}", key, members->size(), kMax);
  ObjectReader values(*members);
  Pattern pattern;
  std::set<std::string> seen;
  for (const std::string& expression : order)
    if (seen.insert(expression).second)
      with_context(
          [&] {
            const auto value = values.number(expression);
            pattern.emplace_back(NameExpression(expression), values.required(value, expression, "a number"));
          },
          [&] { return std::string("in '") + key + "'"; });
  return pattern;
}

passes::LoraOptions AdapterConfig::options_for(const std::vector<std::string>& layers) const {
  const auto value_of = [](const Pattern& pattern, const std::string& layer, double otherwise) {
    for (const auto& [expression, value] : pattern)
      if (expression.matches(layer)) return value;
    return otherwise;
  };
  // Scaling alpha by sqrt(rank) makes alpha / rank equal to rsLoRA's alpha / sqrt(rank).
  const auto alpha_of = [&](double alpha, double rank) {
    return stabilized_ ? alpha * std::sqrt(rank) : alpha;
  };
  passes::LoraOptions options{.rank = static_cast<int64_t>(rank_),
                              .alpha = alpha_of(alpha_, rank_),
                              .dropout = dropout_,
                              .targets = layers};
  with_context(
      [&] {
        for (const std::string& layer : layers) {
          const double rank = value_of(ranks_, layer, rank_),
                       alpha = alpha_of(value_of(alphas_, layer, alpha_), rank);
          if (rank != rank_) options.ranks[layer] = static_cast<int64_t>(rank);
          if (alpha != options.alpha) options.alphas[layer] = alpha;
        }
      },
      [&] { return "in " + file_.string(); });
  return options;
}

nlohmann::ordered_json adapter_config_of(const Model& model, const passes::LoraOptions& options,
                                         const json& base) {
  std::set<std::string> targets;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::object(), alphas = ranks;
  for (const std::string& layer : options.targets) {
    targets.insert(layer);
    if (const int64_t rank = options.rank_of(layer); rank != options.rank) ranks[exactly(layer)] = rank;
    if (const double alpha = options.alpha_of(layer); alpha != options.alpha) alphas[exactly(layer)] = alpha;
  }
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", base},
                                {"inference_mode", true},
                                {"r", options.rank},
                                {"lora_alpha", options.alpha},
                                {"lora_dropout", options.dropout},
                                {"bias", "none"},
                                {"use_rslora", false},
                                {"use_dora", false},
                                {"fan_in_fan_out", is_stored_in_out(model)}};
  config["target_modules"] = targets;
  if (!ranks.empty()) config[kRanks] = ranks;
  if (!alphas.empty()) config[kAlphas] = alphas;
  return config;
}

}  // namespace genesis::models::hugging_face
