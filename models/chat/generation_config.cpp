#include "models/chat/generation_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/chat/json_config.h"
#include "schema/core/error.h"
#include "schema/file/object_reader.h"

namespace genesis::chat {
namespace {

using nlohmann::json;

constexpr int64_t kTopK = 50;       // default of transformers
constexpr double kAllTokens = 1e9;  // more than the size of any vocabulary

double number(const json& config, const char* name, double otherwise) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!found->is_number()) fail("'{}' is not a number", name);
  return found->get<double>();
}

// Settings that are applied, and settings that only affect how transformers computes or what it returns beside the text. The
// length of a text is the caller's choice, and speculative decoding yields the same texts sooner.
// clang-format off
constexpr std::string_view kKnownSettings[] = {
    "_defaults_of", "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_ensemble_weight", "assistant_lookbehind", "bad_words_ids", "bos_token_id", "cache_config", "cache_implementation",
    "compile_config", "continuous_batching_config", "decoder_start_token_id", "disable_compile", "do_sample",
    "early_stopping", "eos_token_id", "is_assistant", "length_penalty", "low_memory", "max_cache_len", "max_length",
    "max_matching_ngram_size", "max_new_tokens", "max_time", "min_new_tokens", "min_p", "no_repeat_ngram_size", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_logits", "output_scores", "pad_token_id", "prefill_chunk_size", "prompt_lookup_num_tokens",
    "remove_invalid_values", "renormalize_logits", "repetition_penalty", "return_dict_in_generate", "sequence_bias",
    "speculation_type", "stop_strings", "suppress_tokens", "target_lookbehind", "temperature", "top_k", "top_p", "transformers_version", "trust_remote_code",
    "typical_p",
    "use_cache", "use_mtp",
};
// clang-format on

// Settings of random sampling, which greedy decoding ignores.
constexpr const char* kOfChance[] = {"epsilon_cutoff", "eta_cutoff", "top_h"};
// Settings that have no effect at 1.
constexpr const char* kNeutralAtOne[] = {"num_beams", "num_beam_groups", "guidance_scale",
                                         "encoder_repetition_penalty"};

bool is_neutral(const std::string& name, const json& value) {
  return is_neutral_json(value) ||
         (value == 1 && std::ranges::find(kNeutralAtOne, name) != std::end(kNeutralAtOne));
}

std::vector<std::string> settings_not_applied(const json& config) {
  std::vector<std::string> found;
  const bool samples = config.value("do_sample", json()) == true;
  for (const auto& [name, value] : config.items()) {
    if (std::ranges::find(kKnownSettings, name) != std::end(kKnownSettings) || is_neutral(name, value))
      continue;
    if (!samples && std::ranges::find(kOfChance, name) != std::end(kOfChance)) continue;
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    found.push_back(name + " = " + (text.size() > 40 ? text.substr(0, 40) + "..." : text));
  }
  return found;
}

// Adds the stop tokens that the configuration names. Returns true if it names any.
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

// Adds the strings that end an answer.
void add_stop_strings(const json& config, std::vector<std::string>& strings) {
  const json named = config.value("stop_strings", json());
  if (named.is_null()) return;
  for (const json& text : named.is_array() ? named : json::array({named})) {
    if (!text.is_string() || text == "") fail("'stop_strings' is no text, nor a list of texts");
    strings.push_back(text.get<std::string>());
  }
}

int64_t token_in(const json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX)
    fail("'{}' has what is not a token's number", name);
  return value.get<int64_t>();
}

std::vector<int64_t> tokens_in(const json& value, const char* name) {
  if (!value.is_array() || value.empty()) fail("'{}' has what is not a list of tokens", name);
  std::vector<int64_t> tokens;
  for (const json& each : value) tokens.push_back(token_in(each, name));
  return tokens;
}

const json& list_in(const json& config, const char* name) {
  static const json none = json::array();
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return none;
  if (!found->is_array()) fail("'{}' is not a list", name);
  return *found;
}

// Adds what the file adds to logits. As in transformers, words that are forbidden are no end tokens.
void add_biases(const json& config, text::GenerateOptions& options) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  for (const json& each : list_in(config, "sequence_bias")) {
    if (!each.is_array() || each.size() != 2 || !each[1].is_number())
      fail("'sequence_bias' has what is not a list of tokens with a number");
    options.logit_bias.push_back({tokens_in(each[0], "sequence_bias"), each[1].get<double>()});
  }
  for (const json& each : list_in(config, "bad_words_ids")) {
    const std::vector<int64_t> tokens = tokens_in(each, "bad_words_ids");
    if (tokens.size() > 1 || std::ranges::count(options.stop_tokens, tokens[0]) == 0)
      options.logit_bias.push_back({tokens, kNever});
  }
  for (const json& each : list_in(config, "suppress_tokens"))
    options.logit_bias.push_back({{token_in(each, "suppress_tokens")}, kNever});
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
    options.typical_p = number(config, "typical_p", 1);
  }
  options.repetition_penalty = number(config, "repetition_penalty", 1);
  options.no_repeat_ngram_size = static_cast<int64_t>(number(config, "no_repeat_ngram_size", 0));
  options.min_tokens = static_cast<int64_t>(number(config, "min_new_tokens", 0));
  add_biases(config, options);
  add_stop_strings(config, options.stop_strings);
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
  return "defaults of " + defaults.get<std::string>() + ", as the model came without settings";
}

std::vector<std::string> generation_warnings(const ConfigFiles& files, int64_t vocabulary) {
  constexpr const char* kFile = "generation_config.json";
  std::vector<std::string> warnings;
  std::vector<int64_t> ends = read_generation_config(files, {}).stop_tokens;
  std::erase_if(ends, [&](int64_t token) { return token < vocabulary; });
  const auto config = files.object(kFile);
  const bool named_there = config && !config->value("eos_token_id", json()).is_null();
  if (!ends.empty())
    warnings.push_back(
        fmt::format("{}: eos_token_id {}: the model has {} tokens and never writes {}, so no text ends there",
                    files.where(named_there ? kFile : "config.json"), fmt::join(ends, ", "), vocabulary,
                    ends.size() == 1 ? "that one" : "those"));
  if (!config) return warnings;
  if (const auto settings = settings_not_applied(*config); !settings.empty())
    warnings.push_back(
        fmt::format("{}: these settings are not applied: {}", files.where(kFile), fmt::join(settings, ", ")));
  return warnings;
}

}  // namespace genesis::chat
