#include "models/formats/gguf/sampling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "schema/messages/log.h"

namespace genesis::models::gguf {
namespace {

struct Setting {
  const char* key;   // behind "general.sampling."
  const char* name;  // in generation_config.json
  double otherwise;  // default of llama.cpp
  bool is_integer = false;
};

constexpr Setting kSettings[] = {{"temp", "temperature", 0.8},
                                 {"top_k", "top_k", 40, true},
                                 {"top_p", "top_p", 0.95},
                                 {"min_p", "min_p", 0.05},
                                 {"penalty_repeat", "repetition_penalty", 1}};

constexpr double kAllTokens = 1e9;  // more than the size of any vocabulary

// Reads a number. Warns and returns nothing if the value is not one.
std::optional<double> number(const Gguf& gguf, const std::string& name) {
  const auto at = gguf.metadata.find(name);
  if (at == gguf.metadata.end()) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&at->second)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&at->second);
  // The file stores an f32: write it as 0.6, not as 0.6000000238.
  if (real && std::isfinite(*real)) return std::stod(fmt::format("{}", static_cast<float>(*real)));
  log_warning("its metadata '{}' are no number, and are left out", name);
  return std::nullopt;
}

}  // namespace

std::string generation_config_json(const Gguf& gguf) {
  nlohmann::ordered_json config = {{"do_sample", true}};
  bool says_any = false;
  for (const Setting& setting : kSettings) {
    const auto said = number(gguf, std::string("general.sampling.") + setting.key);
    says_any = says_any || said;
    const double value = said.value_or(setting.otherwise);
    if (setting.is_integer)  // 0 or less: all tokens
      config[setting.name] = static_cast<int64_t>(std::clamp(value, 0.0, kAllTokens));
    else
      config[setting.name] = value;
  }
  // llama.cpp decodes greedily if the temperature is 0 or less.
  if (config["temperature"].get<double>() <= 0)
    config = {{"do_sample", false}, {"repetition_penalty", config["repetition_penalty"]}};
  if (!says_any) config["_defaults_of"] = "llama.cpp";
  return config.dump(2) + "\n";
}

}  // namespace genesis::models::gguf
