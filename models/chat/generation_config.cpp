#include "models/chat/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/chat/json_config.h"
#include "schema/core/error.h"

namespace genesis::chat {
namespace {

using nlohmann::json;

constexpr int64_t kTopK = 50;       // of transformers
constexpr double kAllTokens = 1e9;  // more than any vocabulary has

double number(const json& config, const char* name, double otherwise) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!found->is_number()) fail("'{}' is not a number", name);
  return found->get<double>();
}

// Whether the configuration names any.
bool add_stop_tokens(const json& config, std::vector<int64_t>& tokens) {
  const json named = config.value("eos_token_id", json());
  if (named.is_null()) return false;
  const json ids = named.is_array() ? named : json::array({named});
  for (const json& id : ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      fail("'eos_token_id' is not a token's number");
    if (std::ranges::find(tokens, id.get<int64_t>()) == tokens.end()) tokens.push_back(id.get<int64_t>());
  }
  return !ids.empty();
}

void add_sampling(const json& config, text::GenerateOptions& options) {
  const auto samples = config.find("do_sample");
  if (samples == config.end() || *samples != true) {
    options.temperature = 0;
  } else {
    options.temperature = number(config, "temperature", 1);
    options.top_k = static_cast<int64_t>(std::clamp(number(config, "top_k", kTopK), -1.0, kAllTokens));
    options.top_p = number(config, "top_p", 1);
    options.min_p = number(config, "min_p", 0);
  }
  options.repetition_penalty = number(config, "repetition_penalty", 1);
  text::check_options(options);
}

}  // namespace

text::GenerateOptions read_generation_config(const ConfigFiles& files,
                                             const text::GenerateOptions& without_file) {
  text::GenerateOptions options = without_file;
  bool stops = false;
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto config = files.object(name);
    if (!config) continue;
    with_context(
        [&] {
          stops = stops || add_stop_tokens(*config, options.stop_tokens);
          if (std::string_view(name) == "generation_config.json") add_sampling(*config, options);
        },
        [&] { return files.where(name); });
  }
  return options;
}

std::optional<std::string> sampling_origin(const ConfigFiles& files) {
  const auto config = files.object("generation_config.json");
  if (!config) return std::nullopt;
  const json defaults = config->value("_defaults_of", json());
  if (!defaults.is_string()) return files.where("generation_config.json");
  return "the defaults of " + defaults.get<std::string>();
}

}  // namespace genesis::chat
