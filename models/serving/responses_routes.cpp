// /v1/responses, for texts: nothing is stored, so that a request brings its whole conversation.
#include "models/serving/chat_messages.h"
#include "models/serving/routes.h"
#include "models/serving/sampling_fields.h"

namespace genesis::serving {
namespace {

class ResponseFormat : public AnswerFormat {
 public:
  explicit ResponseFormat(Json response) : response_(std::move(response)) {}

  std::string begin() override;
  std::string add(size_t, const std::string& piece, std::span<const text::TokenLogprob>) override {
    text_ += piece;
    return named("response.output_text.delta", place({{"delta", piece}, {"logprobs", Json::array()}}));
  }
  std::string end(size_t, const text::GenerateResult& result) override;
  std::string finish(const Usage& usage) override {
    Json whole = this->whole(usage);
    const bool is_cut = whole["status"] == "incomplete";
    return named(is_cut ? "response.incomplete" : "response.completed", {{"response", std::move(whole)}});
  }
  Json whole(const Usage& usage) override;

 private:
  std::string named(const std::string& name, Json data) {
    Json all = {{"type", name}, {"sequence_number", number_++}};
    all.update(data);
    return event(name, all);
  }
  Json place(Json data) const {
    Json all = {{"item_id", item_}, {"output_index", 0}, {"content_index", 0}};
    all.update(data);
    return all;
  }
  Json part() const {
    return {{"type", "output_text"},
            {"text", text_},
            {"annotations", Json::array()},
            {"logprobs", Json::array()}};
  }
  Json item(const std::string& status) const {
    Json content = Json::array();
    if (status != "in_progress") content.push_back(part());
    return {{"type", "message"},
            {"id", item_},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  Json response_;
  const std::string item_ = random_id("msg_");
  std::string text_, status_ = "in_progress";
  int64_t number_ = 0;
};

// Events are numbered in the order in which they are made.
std::string ResponseFormat::begin() {
  std::string events = named("response.created", {{"response", response_}});
  events += named("response.in_progress", {{"response", response_}});
  events += named("response.output_item.added", {{"output_index", 0}, {"item", item("in_progress")}});
  events += named("response.content_part.added", place({{"part", part()}}));
  return events;
}

std::string ResponseFormat::end(size_t, const text::GenerateResult& result) {
  status_ = serving::finish_reason(result.stop_reason) == "length" ? "incomplete" : "completed";
  std::string events =
      named("response.output_text.done", place({{"text", text_}, {"logprobs", Json::array()}}));
  events += named("response.content_part.done", place({{"part", part()}}));
  events += named("response.output_item.done", {{"output_index", 0}, {"item", item(status_)}});
  return events;
}

Json ResponseFormat::whole(const Usage& usage) {
  response_["status"] = status_;
  if (status_ == "incomplete") response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response_["output"] = Json::array({item(status_)});
  response_["usage"] = {{"input_tokens", usage.prompt},
                        {"input_tokens_details", {{"cached_tokens", usage.cached}}},
                        {"output_tokens", usage.generated},
                        {"output_tokens_details", {{"reasoning_tokens", 0}}},
                        {"total_tokens", usage.prompt + usage.generated}};
  return response_;
}

// Returns the conversation: the instructions, and a text of the user or messages.
Json read_messages(Fields& fields) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions"))
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  const Json& input = fields.required("input", "a string, or a list of messages");
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
  } else if (input.is_array()) {
    for (Json message : input) {
      const Json kind = message.is_object() ? message.value("type", Json("message")) : Json();
      if (kind != "message")
        refuse("input", "input: expected messages, got an item of the type {}", shown(kind));
      for (const char* other : {"type", "id", "status"}) message.erase(other);
      messages.push_back(std::move(message));
    }
  } else {
    fields.refuse_value("input", "a string, or a list of messages", input);
  }
  return template_messages(messages, "input");
}

void refuse_storage(Fields& fields) {
  if (fields.find("previous_response_id"))
    refuse("previous_response_id",
           "previous_response_id: nothing is stored here; send the whole conversation as input");
  if (fields.flag("background").value_or(false))
    refuse("background", "background: answers are not stored here");
  if (const Json* tools = fields.find("tools"); tools && !tools->empty())
    refuse("tools", "tools: /v1/chat/completions has them, this route does not");
  if (const Json* format = fields.find("text")) {
    Fields inner(*format, "text.");
    if (const Json* kind = inner.find("format");
        kind && (!kind->is_object() || kind->value("type", Json()) != "text"))
      refuse("text.format", "text.format: /v1/chat/completions has formats, this route has \"text\"");
    inner.ignore({"verbosity"});
    inner.refuse_others();
  }
}

Json response_json(const Host& host, const text::GenerateOptions& options) {
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", seconds_now()},
          {"status", "in_progress"},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", nullptr},
          {"metadata", Json::object()},
          {"model", host.name},
          {"output", Json::array()},
          {"parallel_tool_calls", false},
          {"temperature", options.temperature},
          {"tool_choice", "none"},
          {"tools", Json::array()},
          {"top_p", options.top_p}};
}

}  // namespace

void answer_responses(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  check_model(fields, call.host);
  const Json messages = read_messages(fields);
  const auto max_tokens = fields.number("max_output_tokens", at_least<int64_t>(1));
  text::GenerateSettings settings = read_settings(fields, model);
  settings.max_tokens = max_tokens.value_or(model.capacity());
  const bool streams = fields.flag("stream").value_or(false);
  refuse_storage(fields);
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                 "truncation", "tool_choice", "parallel_tool_calls", "reasoning", "include"});
  fields.refuse_others();
  TextTask task = {.options = model.options(settings, true), .streams = streams};
  task.prompts.push_back(model.encode(model.render(messages, Json::object()), false));
  check_length(model, task.prompts, max_tokens);
  task.headers = answer_headers(task.options, fields);
  task.format = std::make_unique<ResponseFormat>(response_json(call.host, task.options));
  start_texts(call.language(), std::move(task), call.reply);
}

}  // namespace genesis::serving
