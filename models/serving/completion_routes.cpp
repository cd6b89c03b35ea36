// /v1/completions.
#include <algorithm>

#include "models/serving/chat_format.h"
#include "models/serving/format_fields.h"
#include "models/serving/routes.h"
#include "models/serving/sampling_fields.h"
#include "models/serving/token_logprobs.h"

namespace genesis::serving {
namespace {

constexpr int64_t kUsualTokens = 16;  // OpenAI's default

struct FormatOptions {
  std::string model;
  bool streams = false, includes_usage = false, has_logprobs = false;
  std::vector<std::string> echoes;  // the prompt of each text, if it is to stand before it
};

class CompletionFormat : public AnswerFormat {
 public:
  CompletionFormat(const LanguageModel& model, FormatOptions options, size_t texts)
      : model_(model), options_(std::move(options)), choices_(texts) {}

  std::string begin() override {
    std::string events;
    for (size_t text = 0; text < options_.echoes.size(); ++text)
      events += add(text, options_.echoes[text], {});
    return events;
  }
  std::string add(size_t text, const std::string& piece,
                  std::span<const text::TokenLogprob> logprobs) override;
  std::string end(size_t text, const text::GenerateResult& result) override {
    choices_[text].reason = serving::finish_reason(result.stop_reason);
    return options_.streams ? event(answer(Json::array({choice(text, "", Json(), choices_[text].reason)})))
                            : "";
  }
  std::string finish(const Usage& usage) override {
    std::string events;
    if (options_.includes_usage) {
      Json last = answer(Json::array());
      last["usage"] = usage_json(usage);
      events = event(last);
    }
    return events + "data: [DONE]\n\n";
  }
  Json whole(const Usage& usage) override;

 private:
  struct Choice {
    std::string text, reason;
    Json logprobs = {{"tokens", Json::array()},
                     {"token_logprobs", Json::array()},
                     {"top_logprobs", Json::array()},
                     {"text_offset", Json::array()}};
    size_t offset = 0;  // the next token's, in the text
  };

  Json answer(Json choices) const;
  Json choice(size_t text, const std::string& piece, Json logprobs, const Json& reason) const {
    return {{"index", text}, {"text", piece}, {"logprobs", std::move(logprobs)}, {"finish_reason", reason}};
  }
  Json logprobs_of(Choice& choice, std::span<const text::TokenLogprob> logprobs) const;

  const LanguageModel& model_;
  const FormatOptions options_;
  const std::string id_ = random_id("cmpl-");
  const int64_t created_ = seconds_now();
  std::vector<Choice> choices_;
};

Json CompletionFormat::answer(Json choices) const {
  Json made = {{"id", id_},
               {"object", "text_completion"},
               {"created", created_},
               {"model", options_.model},
               {"choices", std::move(choices)}};
  if (options_.streams && options_.includes_usage) made["usage"] = nullptr;
  return made;
}

Json CompletionFormat::logprobs_of(Choice& choice, std::span<const text::TokenLogprob> logprobs) const {
  Json made = Choice().logprobs;
  for (const text::TokenLogprob& token : logprobs) {
    Json top = Json::object();
    for (const text::TokenLogprob& other : token.top)
      top[model_.token_bytes(other.token)] = std::max(other.logprob, kMinLogprob);
    const std::string bytes = model_.token_bytes(token.token);
    made["tokens"].push_back(bytes);
    made["token_logprobs"].push_back(std::max(token.logprob, kMinLogprob));
    made["top_logprobs"].push_back(std::move(top));
    made["text_offset"].push_back(choice.offset);
    choice.offset += bytes.size();
  }
  return made;
}

std::string CompletionFormat::add(size_t text, const std::string& piece,
                                  std::span<const text::TokenLogprob> logprobs) {
  Choice& known = choices_[text];
  Json more;
  if (options_.has_logprobs) more = logprobs_of(known, logprobs);
  if (options_.streams) return event(answer(Json::array({choice(text, piece, std::move(more), {})})));
  known.text += piece;
  for (const auto& [name, list] : more.items())
    for (const Json& each : list) known.logprobs[name].push_back(each);
  return "";
}

Json CompletionFormat::whole(const Usage& usage) {
  for (size_t text = 0; text < options_.echoes.size(); ++text)
    choices_[text].text = options_.echoes[text] + choices_[text].text;
  Json choices = Json::array();
  for (size_t text = 0; text < choices_.size(); ++text) {
    Choice& known = choices_[text];
    choices.push_back(
        choice(text, known.text, options_.has_logprobs ? std::move(known.logprobs) : Json(), known.reason));
  }
  Json made = answer(std::move(choices));
  made["usage"] = usage_json(usage);
  return made;
}

struct Prompts {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::string> texts;
};

// Reads a string, a list of strings, a list of tokens, or a list of lists of tokens.
Prompts read_prompts(Fields& fields, const LanguageModel& model) {
  const char* const expected = "a string, a list of strings, a list of tokens, or a list of lists of tokens";
  const Json& given = fields.required("prompt", expected);
  Prompts prompts;
  const bool is_list_of_prompts = given.is_array() && !given.empty() && !given[0].is_number();
  const Json all = is_list_of_prompts ? given : Json::array({given});
  for (const Json& one : all) {
    if (!one.is_string() && !(one.is_array() && !one.empty())) fields.refuse_value("prompt", expected, one);
    prompts.tokens.push_back(one.is_string() ? model.encode(one.get<std::string>(), true)
                                             : fields.whole_numbers("prompt", one));
    model.room_behind(prompts.tokens.back());
    prompts.texts.push_back(one.is_string() ? one.get<std::string>() : model.decode(prompts.tokens.back()));
  }
  return prompts;
}

void read_logprobs(Fields& fields, text::GenerateOptions& options) {
  const auto count = fields.number("logprobs", Range<int64_t>{0, text::kMaxTopLogprobs});
  options.logprobs = count.has_value();
  options.top_logprobs = count.value_or(0);
}

}  // namespace

void answer_completion(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const ChosenModel chosen = read_model(fields, call.host);
  Prompts prompts = read_prompts(fields, model);
  const auto max_tokens = fields.number("max_tokens", at_least<int64_t>(1));
  text::GenerateSettings settings = read_settings(fields, model);
  settings.max_tokens = max_tokens.value_or(kUsualTokens);
  const Delivery delivery = read_delivery(fields);
  TextTask task = {.prompts = std::move(prompts.tokens),
                   .n = delivery.n,
                   .adapter = chosen.adapter,
                   .options = model.options(settings, false),
                   .streams = delivery.streams};
  read_logprobs(fields, task.options);
  read_format(fields, model, {}, task);
  const bool echoes = fields.flag("echo").value_or(false);
  if (echoes && task.options.logprobs)
    refuse("echo", "echo: prompts have no log-probabilities here; leave out echo or logprobs");
  fields.ignore({"user", "metadata"});
  fields.refuse_others();
  check_length(model, task.prompts, max_tokens);
  task.headers = answer_headers(task.options, fields);
  FormatOptions format = {chosen.name, task.streams, delivery.includes_usage, task.options.logprobs, {}};
  for (const std::string& text : prompts.texts)
    if (echoes) format.echoes.insert(format.echoes.end(), static_cast<size_t>(task.n), text);
  const size_t texts = task.prompts.size() * static_cast<size_t>(task.n);
  task.format = std::make_unique<CompletionFormat>(model, std::move(format), texts);
  start_texts(call.language(), std::move(task), call.reply, call.client);
}

}  // namespace genesis::serving
