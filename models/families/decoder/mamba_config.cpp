#include "models/families/decoder/mamba_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/config_sizes.h"

namespace genesis::models {

using nlohmann::json;

namespace {

constexpr int64_t kMaxTaps = 1024;

ConfigEntry named_flag_entry(const char* name, bool where_absent, const char* setting) {
  return {.settings = {setting},
          .read = [=](SettingsReader& r) { r.copy_flag(name, setting, where_absent); },
          .write = [=](const json& settings, json& config) { config[name] = settings.at(setting); }};
}

ConfigEntry head_size_entry(const MambaEntries& n) {
  return {.settings = {"mamba_d_head"},
          .read =
              [=](SettingsReader& r) {
                if (n.expand) r.ignore({n.expand});
                if (r.given(n.head_size, n.default_head_size) != "auto")
                  return r.copy_size(n.head_size, "mamba_d_head", n.default_head_size);
                const int64_t heads = std::max<int64_t>(1, r.size("mamba_n_heads")),
                              features =
                                  checked_mul(r.size("hidden_size"), n.expand ? r.integer(n.expand, 2) : 2);
                if (features % heads != 0) return r.refuse(n.heads, fmt::format("a divisor of {}", features));
                r.set("mamba_d_head", features / heads);
              },
          .write =
              [=](const json& settings, json& config) {
                const int64_t size = settings.at("mamba_d_head"),
                              features = size * settings.at("mamba_n_heads").get<int64_t>(),
                              hidden = settings.at("hidden_size");
                config[n.head_size] = size;
                if (n.expand && hidden > 0) config[n.expand] = features / hidden;
              }};
}

// A JSON text has no infinity, which transformers writes as an object.
const json& infinity() {
  static const json value = {{"__float__", "Infinity"}};
  return value;
}

void read_step_limits(SettingsReader& r) {
  const json& limits = r.get("time_step_limit");
  if (limits.is_null()) return;
  const bool is_range = limits.is_array() && limits.size() == 2 && limits[0].is_number() &&
                        (limits[1].is_number() || limits[1] == infinity() || limits[1] == "Infinity");
  if (!is_range) return r.refuse("time_step_limit", "two numbers");
  // A greatest step of 0 would mean that no token changes the state; the setting's 0 means that there is none.
  if (limits[1].is_number() && !(limits[1].get<double>() > 0))
    return r.refuse("time_step_limit", "a greatest step above 0");
  r.copy_number_of(limits[0], "time_step_limit", "time_step_least");
  r.copy_number_of(limits[1].is_number() ? limits[1] : json(0.0), "time_step_limit", "time_step_greatest");
}

ConfigEntry step_limits_entry() {
  return {.settings = {"time_step_least", "time_step_greatest"},
          .read = read_step_limits,
          .write = [](const json& settings, json& config) {
            const json &least = settings.at("time_step_least"), &greatest = settings.at("time_step_greatest");
            config["time_step_limit"] = {least, greatest == 0 ? infinity() : greatest};
          }};
}

// Returns the settings list that means the same and is empty if it is the cycle.
json shortest_list(const json& types, const LayerCycle& cycle) {
  if (!types.is_array()) return types;
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] != cycle[i % cycle.size()]) return types;
  return json::array();
}

}  // namespace

MambaDesign MambaSettings::mamba(const std::string& family) const {
  check_size(family, "mamba_n_heads", mamba_n_heads, kMaxHeads);
  check_size(family, "mamba_d_head", mamba_d_head, kMaxHeads);
  check_size(family, "mamba_n_groups", mamba_n_groups, kMaxHeads);
  check_size(family, "mamba_d_state", mamba_d_state, kMaxHeads);
  if (mamba_n_heads % mamba_n_groups != 0)
    fail("{}: mamba_n_heads {} is not a multiple of mamba_n_groups {}", family, mamba_n_heads,
         mamba_n_groups);
  if (mamba_d_conv < 2 || mamba_d_conv > kMaxTaps)
    fail("{}: mamba_d_conv is {}, it must be from 2 to {}", family, mamba_d_conv, kMaxTaps);
  if (!(time_step_least >= 0) || (time_step_greatest != 0 && !(time_step_greatest >= time_step_least)))
    fail(
        "{}: time_step_least is {} and time_step_greatest {}, expected 0 or more, and a greatest one that is "
        "not less, or 0 for none",
        family, time_step_least, time_step_greatest);
  return {.heads = mamba_n_heads,
          .head_size = mamba_d_head,
          .groups = mamba_n_groups,
          .state_size = mamba_d_state,
          .taps = mamba_d_conv,
          .convolution_bias = mamba_conv_bias,
          .biases = mamba_proj_bias,
          .least_step = time_step_least,
          .greatest_step = time_step_greatest};
}

ConfigEntries mamba_entries(const MambaEntries& n) {
  return {size_entry(n.heads, n.default_heads, "mamba_n_heads"),
          size_entry(n.groups, n.default_groups, "mamba_n_groups"),
          size_entry(n.state_size, n.default_state_size, "mamba_d_state"),
          size_entry(n.taps, 4, "mamba_d_conv"),
          head_size_entry(n),
          named_flag_entry(n.convolution_bias, true, "mamba_conv_bias"),
          named_flag_entry(n.biases, false, "mamba_proj_bias"),
          step_limits_entry(),
          ignored_entry({"mamba_chunk_size", "chunk_size", "num_logits_to_keep", "use_mamba_kernels"})};
}

ConfigEntries gguf_mamba_entries() {
  return {size_entry("ssm.conv_kernel", {}, "mamba_d_conv"),
          size_entry("ssm.state_size", {}, "mamba_d_state"),
          size_entry("ssm.group_count", {}, "mamba_n_groups"),
          size_entry("ssm.time_step_rank", {}, "mamba_n_heads"),
          {.settings = {"mamba_d_head"}, .read = [](SettingsReader& r) {
             const int64_t features = r.integer("ssm.inner_size", 0),
                           heads = std::max<int64_t>(1, r.size("mamba_n_heads"));
             if (features <= 0 || features % heads != 0)
               return r.refuse("ssm.inner_size", fmt::format("a multiple of ssm.time_step_rank, {}", heads));
             r.set("mamba_d_head", features / heads);
           }}};
}

std::map<std::string, std::string> gguf_mamba(const std::string& module) {
  return {{"ssm_in", module + ".in_proj"},
          {"ssm_conv1d", module + ".conv1d"},
          {"ssm_dt.bias", module + ".dt_bias"},
          {"ssm_a", module + ".A_log"},
          {"ssm_d", module + ".D"},
          {"ssm_norm", module + ".norm"},
          {"ssm_out", module + ".out_proj"}};
}

LayerCycle mamba_cycle() { return {kMambaLayer, kMambaLayer, kMambaLayer, kAttentionLayer}; }

std::vector<std::string> kinds_of_layers(const std::string& family, const LayerCycle& cycle,
                                         const std::vector<std::string>& layer_types, int64_t layers) {
  if (!layer_types.empty() && std::ssize(layer_types) != layers)
    fail("{}: layer_types has {} entries for {} layers", family, layer_types.size(), layers);
  for (const std::string& type : layer_types)
    if (std::ranges::find(cycle, type) == cycle.end())
      fail("{}: layer_types has '{}', expected {}", family, type, fmt::join(cycle, " or "));
  check_size(family, "num_hidden_layers", layers, kMaxLayers);
  std::vector<std::string> kinds = layer_types;
  for (size_t i = kinds.size(); i < static_cast<size_t>(layers); ++i)
    kinds.push_back(cycle[i % cycle.size()]);
  return kinds;
}

void read_layer_kinds(SettingsReader& r, const std::string& name, const json& list, const LayerCycle& cycle) {
  json types = json::array();
  for (const json& given : list) {
    json type = given == "mamba" ? json(kMambaLayer) : given == "attention" ? json(kAttentionLayer) : given;
    if (!type.is_string() || std::ranges::find(cycle, type.get<std::string>()) == cycle.end())
      return r.add_problem(fmt::format("{}: {}", name, r.shown(given)));
    types.push_back(std::move(type));
  }
  r.set("num_hidden_layers", types.size());
  r.set("layer_types", shortest_list(types, cycle));
}

json all_layer_kinds(const json& settings, const LayerCycle& cycle) {
  const json& types = settings.at("layer_types");
  if (!types.empty()) return types;
  json all = json::array();
  const int64_t layers = std::clamp<int64_t>(settings.at("num_hidden_layers"), 0, kMaxLayers);
  for (int64_t i = 0; i < layers; ++i) all.push_back(cycle[static_cast<size_t>(i) % cycle.size()]);
  return all;
}

ConfigEntry layer_kinds_entry(const std::string& name, const std::string& older, const LayerCycle& cycle,
                              const std::string& where_absent) {
  return {
      .settings = {"layer_types"},
      .read =
          [=](SettingsReader& r) {
            const json &now = r.get(name), &then = r.get(older);
            if (const json& list = now.is_null() ? then : now; list.is_array())
              return read_layer_kinds(r, name, list, cycle);
            const auto layers = static_cast<size_t>(std::min(r.size("num_hidden_layers"), kMaxLayers));
            read_layer_kinds(r, name, std::vector<std::string>(layers, where_absent), cycle);
          },
      .write = [=](const json& settings, json& config) { config[name] = all_layer_kinds(settings, cycle); },
      .replaces = {name, older},
      .normalize =
          [=](json& settings) {
            settings["layer_types"] = shortest_list(settings.at("layer_types"), cycle);
          }};
}

ConfigEntry factors_entry(const std::string& name, int64_t count) {
  return {.settings = {name},
          .read =
              [=](SettingsReader& r) {
                const json list = r.given(name, json());
                const auto is_number = [](const json& x) {
                  return x.is_number() && std::isfinite(x.get<float>());
                };
                if (list.is_null()) return;
                if (!list.is_array() || std::ssize(list) != count || !std::ranges::all_of(list, is_number))
                  return r.refuse(name, fmt::format("a list of {} numbers", count));
                r.set(name, list);
              },
          .write = [=](const json& settings, json& config) { config[name] = settings.at(name); }};
}

void check_factors(const std::string& family, const std::string& name, const std::vector<double>& factors,
                   size_t count) {
  if (factors.size() != count)
    fail("{}: {} has {} numbers, expected {}", family, name, factors.size(), count);
}

}  // namespace genesis::models
