#include "models/serving/sampling_fields.h"

#include <random>

#include "models/text/sampling_settings.h"
#include "schema/core/parse_number.h"

namespace genesis::serving {
namespace {

std::vector<text::TokenBias> read_logit_bias(Fields& fields, int64_t vocabulary) {
  const Json* given = fields.find("logit_bias");
  if (!given) return {};
  const char* const expected = "an object of tokens and numbers from -100 to 100, such as {\"42\": -100}";
  if (!given->is_object()) fields.refuse_value("logit_bias", expected, *given);
  std::vector<text::TokenBias> biases;
  for (const auto& [name, value] : given->items()) {
    const std::optional<int64_t> token = parse_number<int64_t>(name);
    if (!token || !value.is_number() || std::abs(value.get<double>()) > 100)
      fields.refuse_value("logit_bias." + name, expected, value);
    if (*token < 0 || *token >= vocabulary)
      refuse(fields.path("logit_bias"), "logit_bias: the token {} is none of the model's {}", *token,
             vocabulary);
    biases.push_back({{*token}, value.get<double>()});
  }
  return biases;
}

uint64_t random_seed() {
  // 53 bits, which every reader of JSON keeps.
  thread_local std::mt19937_64 random{std::random_device()()};
  return random() >> 11;
}

}  // namespace

text::GenerateSettings read_settings(Fields& fields, const LanguageModel& model) {
  text::GenerateSettings settings;
  text::visit_sampling([&](const char* name, auto, auto setting, const auto& range, auto, auto) {
    if (const auto value = fields.number(name, range)) settings.*setting = *value;
  });
  settings.seed = settings.seed.value_or(random_seed());
  settings.logit_bias = read_logit_bias(fields, model.vocab_size());
  settings.stop_strings = fields.texts("stop");
  for (const std::string& stop : settings.stop_strings)
    if (stop.empty())
      refuse(fields.path("stop"), "stop: a stop string is empty: every text would end before it begins");
  if (const Json* tokens = fields.find("stop_token_ids"))
    settings.stop_tokens = fields.whole_numbers("stop_token_ids", *tokens);
  settings.ignore_eos = fields.flag("ignore_eos").value_or(false);
  return settings;
}

Delivery read_delivery(Fields& fields) {
  Delivery delivery;
  delivery.n = fields.number("n", Range<int64_t>{1, 128}).value_or(1);
  delivery.streams = fields.flag("stream").value_or(false);
  const Json* options = fields.find("stream_options");
  if (!options) return delivery;
  if (!delivery.streams)
    refuse(fields.path("stream_options"), "stream_options: only a request with \"stream\": true has them");
  Fields inner(*options, fields.path("stream_options."));
  delivery.includes_usage = inner.flag("include_usage").value_or(false);
  inner.flag("include_obfuscation");  // there is none
  inner.refuse_others();
  return delivery;
}

Headers answer_headers(const text::GenerateOptions& options, const Fields& fields) {
  Headers headers = {{"x-genesis-seed", std::to_string(options.seed)}};
  std::string names;
  for (const std::string& name : fields.ignored()) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) headers.emplace_back("x-genesis-ignored", names);
  return headers;
}

void check_length(const LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                  std::optional<int64_t> max_tokens) {
  for (const std::vector<int64_t>& prompt : prompts) {
    const int64_t room = model.room_behind(prompt);
    if (max_tokens.value_or(0) > room)
      throw ApiError(400, "invalid_request_error", "context_length_exceeded",
                     fmt::format("the prompt has {} tokens and max_tokens is {}, but a text here has {} at "
                                 "most: shorten the prompt, "
                                 "or ask for {} tokens or fewer",
                                 prompt.size(), *max_tokens, model.capacity(), room),
                     "max_tokens");
  }
}

}  // namespace genesis::serving
