#include "models/families/decoder/rotation_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "builder/rope_scaling.h"
#include "models/config_fields.h"
#include "schema/core/type_limits.h"

namespace genesis::models {

using nlohmann::json;

namespace {

// The entry that has the parameters of RoPE: its name, and its value.
struct RopeObject {
  const char* name = "rope_parameters";
  const json* value = nullptr;  // null if there is none

  const json& get(const char* key) const {
    static const json none;
    if (!value || !value->is_object()) return none;
    const auto at = value->find(key);
    return at == value->end() ? none : *at;
  }
};

constexpr const char *kPartial = "partial_rotary_factor", *kLocalTheta = "rope_local_base_freq",
                     *kFull = "full_attention", *kSliding = "sliding_attention";

// Returns true if `object` has an object of parameters for each type of layer.
bool is_by_layer(const json& object) {
  return object.is_object() && object.contains(kFull) && object.at(kFull).is_object();
}

// Returns the parameters of all layers; of those with full attention, if the class has a rotation of its own for sliding layers.
RopeObject rope_object(SettingsReader& r) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json& found = r.get(name);
    if (found.is_null() || (found.is_object() && found.empty())) continue;
    if (is_by_layer(found) && r.settings().contains(kLocalTheta)) return {name, &found.at(kFull)};
    return {name, &found};
  }
  return {};
}

class RopeReader {
 public:
  explicit RopeReader(SettingsReader& reader) : r_(reader), object_(rope_object(reader)) {}

  void read() {
    r_.ignore({"rope_scaling", "rope_parameters", kOriginal});
    if (!object_.value) return;
    if (!object_.value->is_object()) return r_.refuse(object_.name, "an object");
    for (const char* of_layers : {kFull, kSliding})
      if (!get(of_layers).is_null()) return refuse(of_layers);
    const json& type = get(get("rope_type").is_null() ? "type" : "rope_type");
    if (get(kPartial) != 1 && !get(kPartial).is_null() && type != "proportional" &&
        !r_.settings().contains(kPartial))
      refuse(kPartial);
    if (type.is_null() || type == "default") return;
    const bool is_long = type == "longrope" || type == "su";  // an older name
    if (type != "linear" && type != "dynamic" && type != "llama3" && type != "yarn" &&
        type != "proportional" && !is_long)
      return refuse(get("rope_type").is_null() ? "type" : "rope_type");
    r_.set("rope_scaling", is_long ? json("longrope") : type);
    read_factor(type == "yarn" || is_long, type == "proportional");
    if (type == "proportional") copy("partial_rotary_factor", "rope_proportion", 1);
    if (type == "dynamic") r_.set("rope_original_positions", longest());
    if (type == "llama3") read_llama3();
    if (type == "yarn") read_yarn();
    if (is_long) read_longrope();
  }

 private:
  static constexpr const char* kOriginal = "original_max_position_embeddings";

  const json& get(const char* key) const { return object_.get(key); }
  void refuse(const char* key) {
    r_.add_problem(fmt::format("{}.{}: {}", object_.name, key, r_.shown(get(key))));
  }
  static bool is_positive(const json& value) {
    return value.is_number() && fits_f32(value.get<double>()) && value.get<double>() > 0;
  }
  double number(const char* key, double where_absent) {
    const json& value = get(key);
    if (value.is_null()) return where_absent;
    if (is_positive(value)) return value.get<double>();
    refuse(key);
    return where_absent;
  }
  void copy(const char* key, const std::string& setting, double where_absent) {
    r_.set(setting, number(key, where_absent));
  }

  int64_t longest() const { return r_.size("max_position_embeddings"); }
  int64_t original() {
    const json& value = r_.has(kOriginal) ? r_.get(kOriginal) : get(kOriginal);
    if (value.is_null()) return longest();
    if (value.is_number_integer() && value > 0 && value < (int64_t{1} << 40)) return value.get<int64_t>();
    refuse(kOriginal);
    return 1;
  }

  void read_factor(bool of_lengths, bool optional) {
    factor_ = number("factor", 1);
    if (get("factor").is_null() && of_lengths)
      factor_ = static_cast<double>(longest()) / static_cast<double>(original());
    else if (get("factor").is_null() && !optional)
      refuse("factor");
    r_.set("rope_factor", factor_);
  }
  void read_llama3() {
    r_.set("rope_original_positions", original());
    for (const char* key : {"low_freq_factor", "high_freq_factor"})
      get(key).is_null() ? refuse(key) : copy(key, fmt::format("rope_{}", key), 1);
  }
  void read_yarn() {
    r_.set("rope_original_positions", original());
    copy("beta_fast", "rope_beta_fast", 32);
    copy("beta_slow", "rope_beta_slow", 1);
    if (const json& truncate = get("truncate"); truncate.is_boolean())
      r_.set("rope_truncate", truncate);
    else if (!truncate.is_null())
      refuse("truncate");
    const double mscale = number("mscale", 0), of_all = number("mscale_all_dim", 0);
    const double standard =
        mscale > 0 && of_all > 0 ? attention_factor(mscale) / attention_factor(of_all) : attention_factor(1);
    copy("attention_factor", "rope_attention_factor", standard);
  }
  void read_longrope() {
    const auto trained = static_cast<double>(original());
    r_.set("rope_original_positions", original());
    for (const char* key : {"short_factor", "long_factor"}) {
      const json& factors = get(key);
      if (factors.is_array() && std::ranges::all_of(factors, is_positive))
        r_.set(fmt::format("rope_{}s", key), factors);
      else
        refuse(key);
    }
    const double standard =
        factor_ <= 1 || trained <= 1 ? 1 : std::sqrt(1 + std::log(factor_) / std::log(trained));
    copy("attention_factor", "rope_attention_factor", standard);
  }
  // Returns the attention factor that the authors of YaRN suggest.
  double attention_factor(double mscale) const {
    return factor_ <= 1 ? 1 : 0.1 * mscale * std::log(factor_) + 1;
  }

  SettingsReader& r_;
  RopeObject object_;
  double factor_ = 1;
};

void read_theta(SettingsReader& r, double where_absent) {
  const json outside = r.get("rope_theta"), inside = rope_object(r).get("rope_theta");
  const json theta = inside.is_null() ? outside : inside;
  r.copy_number_of(theta.is_null() ? json(where_absent) : theta, "rope_theta", "rope_theta");
}

// Writes a value of all layers where version 5 keeps it, or beside rope_scaling if there are no parameters.
void write_inside(const char* name, const json& settings, json& config) {
  const auto rope = config.find("rope_parameters");
  const bool inside = rope != config.end() && rope->is_object() && !rope->empty();
  (!inside ? config : is_by_layer(*rope) ? rope->at(kFull) : *rope)[name] = settings.at(name);
}
void write_theta(const json& settings, json& config) { write_inside("rope_theta", settings, config); }

// The parameters of a kind of scaling: pairs of the name in config.json and the name of the setting.
using Parameters = std::vector<std::pair<const char*, const char*>>;
const std::map<std::string, Parameters>& scaled_rotations() {
  static const std::pair<const char*, const char*> factor{"factor", "rope_factor"},
      original{"original_max_position_embeddings", "rope_original_positions"};
  static const std::map<std::string, Parameters> kinds = {
      {"linear", {factor}},
      {"dynamic", {factor}},
      {"llama3",
       {factor,
        original,
        {"low_freq_factor", "rope_low_freq_factor"},
        {"high_freq_factor", "rope_high_freq_factor"}}},
      {"yarn",
       {factor,
        original,
        {"beta_fast", "rope_beta_fast"},
        {"beta_slow", "rope_beta_slow"},
        {"truncate", "rope_truncate"},
        {"attention_factor", "rope_attention_factor"}}},
      {"longrope",
       {factor,
        original,
        {"short_factor", "rope_short_factors"},
        {"long_factor", "rope_long_factors"},
        {"attention_factor", "rope_attention_factor"}}},
      {"proportional", {factor, {"partial_rotary_factor", "rope_proportion"}}}};
  return kinds;
}

// Returns the parameters of a scaled rotation as an object; null without scaling.
json scaling_object(const json& settings) {
  const std::string kind = settings.at("rope_scaling");
  const auto found = scaled_rotations().find(kind);
  if (found == scaled_rotations().end()) return {};
  json parameters = json::object({{"rope_type", kind}});
  for (const auto& [name, setting] : found->second) parameters[name] = settings.at(setting);
  return parameters;
}

// Writes one object for each type of layer.
void write_by_layer(const json& settings, json& config) {
  json full = scaling_object(settings);
  if (full.is_null()) full = {{"rope_type", "default"}};
  full["rope_theta"] = settings.at("rope_theta");
  config["rope_parameters"] = {
      {kFull, full}, {kSliding, {{"rope_type", "default"}, {"rope_theta", settings.at(kLocalTheta)}}}};
}

// Writes theta again, because it may have been inside of an object that was removed. Classes with the settings of LongRoPE have
// original_max_position_embeddings beside its parameters, where it takes precedence.
void write_rotation(const json& settings, json& config) {
  if (settings.at("rope_scaling") == "dynamic")
    config["max_position_embeddings"] = settings.at("rope_original_positions");
  if (settings.contains(kLocalTheta)) return write_by_layer(settings, config);
  write_theta(settings, config);
  if (settings.contains(kPartial)) write_inside(kPartial, settings, config);
  const json scaling = scaling_object(settings);
  if (scaling.is_null()) return;
  config["rope_scaling"] = scaling;
  if (scaling.at("rope_type") == "longrope")
    config["original_max_position_embeddings"] = settings.at("rope_original_positions");
}

// Reads the base of sliding layers, which version 5 has in their own object.
void read_local_theta(SettingsReader& r, double where_absent) {
  r.set(kLocalTheta, where_absent);  // tells rope_object() that there may be one object for each type
  const json& parameters = r.get("rope_parameters");
  json theta = r.get(kLocalTheta);
  if (is_by_layer(parameters)) {
    const json sliding = parameters.value(kSliding, json::object());
    if (sliding.is_object() && sliding.value("rope_type", json("default")) != "default")
      r.add_problem(fmt::format("rope_parameters.{}.rope_type: {}", kSliding, r.shown(sliding["rope_type"])));
    if (sliding.is_object() && sliding.contains("rope_theta")) theta = sliding["rope_theta"];
  }
  if (!theta.is_null()) r.copy_number_of(theta, kLocalTheta, kLocalTheta);
}

// Gives the settings that the kind of scaling does not use their standard values.
void normalize_rotation(json& settings) {
  const std::string kind = settings.at("rope_scaling");
  const auto found = scaled_rotations().find(kind);
  std::vector<std::string> used = {"rope_scaling"};
  if (found != scaled_rotations().end())
    for (const auto& [name, setting] : found->second) used.emplace_back(setting);
  if (kind == "dynamic") used.emplace_back("rope_original_positions");
  const nn::RopeScaling standard;
  nn::RopeScaling::fields(standard, [&](const char* name, const auto& field) {
    if (std::ranges::find(used, name) == used.end()) settings[name] = field_value(field);
  });
}

}  // namespace

ConfigEntry theta_entry(double where_absent) {
  return {.settings = {"rope_theta"},
          .read = [=](SettingsReader& r) { read_theta(r, where_absent); },
          .write = write_theta};
}

ConfigEntry partial_rotation_entry(double where_absent) {
  return {.settings = {kPartial},
          .read =
              [=](SettingsReader& r) {
                const json outside = r.get(kPartial), inside = rope_object(r).get(kPartial);
                const json factor = inside.is_null() ? outside : inside;
                r.copy_number_of(factor.is_null() ? json(where_absent) : factor, kPartial, kPartial);
              },
          .write = [](const json& settings, json& config) { write_inside(kPartial, settings, config); }};
}

ConfigEntry local_theta_entry(double where_absent) {
  return {.settings = {kLocalTheta, "rope_theta"},
          .read = [=](SettingsReader& r) { read_local_theta(r, where_absent); },
          .write = write_by_layer,
          .replaces = {"rope_scaling", "rope_parameters", kLocalTheta, "rope_theta"}};
}

ConfigEntry rotation_entry() {
  ConfigEntry entry{.settings = {},
                    .read = [](SettingsReader& r) { RopeReader(r).read(); },
                    .write = write_rotation,
                    .replaces = {"rope_scaling", "rope_parameters", "original_max_position_embeddings"},
                    .normalize = normalize_rotation};
  const nn::RopeScaling standard;
  nn::RopeScaling::fields(standard,
                          [&](const char* name, const auto&) { entry.settings.emplace_back(name); });
  return entry;
}

}  // namespace genesis::models
