// /v1/responses, for texts and calls of tools: nothing is stored, so that a request brings its whole conversation.
#include "models/serving/chat_messages.h"
#include "models/serving/format_fields.h"
#include "models/serving/routes.h"
#include "models/serving/sampling_fields.h"
#include "models/serving/tool_calls.h"

namespace genesis::serving {
namespace {

// The answer: a message, calls of tools, or both, as items.
class ResponseFormat : public AnswerFormat {
 public:
  // `response` has the fields that are known before the answer. `parses_calls`: the model may call tools.
  ResponseFormat(Json response, bool parses_calls)
      : response_(std::move(response)), parses_calls_(parses_calls) {}

  std::string begin() override;
  std::string add(size_t, const std::string& piece, std::span<const text::TokenLogprob>) override {
    return parses_calls_ ? take(reader_.add(piece)) : take({.text = piece});
  }
  std::string end(size_t, const text::GenerateResult& result) override;
  std::string finish(const Usage& usage) override;
  Json whole(const Usage& usage) override;

 private:
  std::string named(const std::string& name, Json data);
  Json place(Json data) const;
  Json part() const;
  Json message(const std::string& status) const;
  std::string open_message();
  std::string close_message();
  std::string take(const ToolText& found);
  std::string take_call(const ToolCall& call);

  Json response_;
  const bool parses_calls_;
  const std::string message_ = random_id("msg_");
  ToolCallReader reader_;
  std::vector<Json> items_;  // in the order of their beginnings; null: the message
  int64_t message_at_ = -1;  // its place among the items
  std::string text_, status_ = "in_progress";
  int64_t number_ = 0;
};

// Events are numbered in the order in which they are made.
std::string ResponseFormat::named(const std::string& name, Json data) {
  Json all = {{"type", name}, {"sequence_number", number_++}};
  all.update(data);
  return event(name, all);
}

Json ResponseFormat::place(Json data) const {
  Json all = {{"item_id", message_}, {"output_index", message_at_}, {"content_index", 0}};
  all.update(data);
  return all;
}

Json ResponseFormat::part() const {
  return {
      {"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json ResponseFormat::message(const std::string& status) const {
  Json content = Json::array();
  if (status != "in_progress") content.push_back(part());
  return {{"type", "message"},
          {"id", message_},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

std::string ResponseFormat::begin() {
  std::string events = named("response.created", {{"response", response_}});
  events += named("response.in_progress", {{"response", response_}});
  return parses_calls_ ? events : events + open_message();
}

std::string ResponseFormat::open_message() {
  if (message_at_ >= 0) return "";
  message_at_ = std::ssize(items_);
  items_.emplace_back();
  std::string events =
      named("response.output_item.added", {{"output_index", message_at_}, {"item", message("in_progress")}});
  return events + named("response.content_part.added", place({{"part", part()}}));
}

std::string ResponseFormat::close_message() {
  std::string events =
      named("response.output_text.done", place({{"text", text_}, {"logprobs", Json::array()}}));
  events += named("response.content_part.done", place({{"part", part()}}));
  events += named("response.output_item.done", {{"output_index", message_at_}, {"item", message(status_)}});
  return events;
}

std::string ResponseFormat::take(const ToolText& found) {
  std::string events;
  if (!found.text.empty()) {
    events += open_message();
    text_ += found.text;
    events +=
        named("response.output_text.delta", place({{"delta", found.text}, {"logprobs", Json::array()}}));
  }
  for (const ToolCall& call : found.calls) events += take_call(call);
  return events;
}

std::string ResponseFormat::take_call(const ToolCall& call) {
  const std::string id = random_id("fc_");
  const int64_t at = std::ssize(items_);
  Json item = {{"type", "function_call"}, {"id", id},        {"call_id", random_id("call_")},
               {"name", call.name},       {"arguments", ""}, {"status", "in_progress"}};
  const Json where = {{"item_id", id}, {"output_index", at}};
  const auto with = [&](const char* name) {
    Json data = where;
    data[name] = call.arguments;
    return data;
  };
  std::string events = named("response.output_item.added", {{"output_index", at}, {"item", item}});
  events += named("response.function_call_arguments.delta", with("delta"));
  events += named("response.function_call_arguments.done", with("arguments"));
  item["arguments"] = call.arguments;
  item["status"] = "completed";
  events += named("response.output_item.done", {{"output_index", at}, {"item", item}});
  items_.push_back(std::move(item));
  return events;
}

std::string ResponseFormat::end(size_t, const text::GenerateResult& result) {
  status_ = serving::finish_reason(result.stop_reason) == "length" ? "incomplete" : "completed";
  std::string events;
  if (parses_calls_) events = take(reader_.finish());
  if (items_.empty()) events += open_message();
  return message_at_ >= 0 ? events + close_message() : events;
}

std::string ResponseFormat::finish(const Usage& usage) {
  Json whole = this->whole(usage);
  const bool is_cut = whole["status"] == "incomplete";
  return named(is_cut ? "response.incomplete" : "response.completed", {{"response", std::move(whole)}});
}

Json ResponseFormat::whole(const Usage& usage) {
  response_["status"] = status_;
  if (status_ == "incomplete") response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response_["output"] = Json::array();
  for (const Json& item : items_) response_["output"].push_back(item.is_null() ? message(status_) : item);
  response_["usage"] = {{"input_tokens", usage.prompt},
                        {"input_tokens_details", {{"cached_tokens", usage.cached}}},
                        {"output_tokens", usage.generated},
                        {"output_tokens_details", {{"reasoning_tokens", 0}}},
                        {"total_tokens", usage.prompt + usage.generated}};
  return response_;
}

// Returns the message of the chat API that the item stands for: a message, a call of a tool, or what the tool has returned.
Json message_of(Json item) {
  const Json kind = item.is_object() ? item.value("type", Json("message")) : Json();
  if (kind == "function_call") {
    const Json function = {{"name", item.value("name", Json())},
                           {"arguments", item.value("arguments", Json())}};
    const Json call = {{"id", item.value("call_id", Json())}, {"type", "function"}, {"function", function}};
    return {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}};
  }
  if (kind == "function_call_output")
    return {{"role", "tool"},
            {"tool_call_id", item.value("call_id", Json())},
            {"content", item.value("output", Json())}};
  if (kind != "message")
    refuse("input",
           "input: expected messages, function_call and function_call_output, got an item of the type {}",
           shown(kind));
  for (const char* other : {"type", "id", "status"}) item.erase(other);
  return item;
}

// Returns the conversation: the instructions, and a text of the user or items. Calls that follow one another are of one message.
Json read_messages(Fields& fields) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions"))
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  const Json& input = fields.required("input", "a string, or a list of messages");
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
  } else if (input.is_array()) {
    for (const Json& item : input) {
      Json message = message_of(item);
      const bool is_call = item.is_object() && item.value("type", Json()) == "function_call";
      if (is_call && !messages.empty() && messages.back().contains("tool_calls") &&
          messages.back()["tool_calls"].is_array())
        messages.back()["tool_calls"].push_back(message["tool_calls"][0]);
      else
        messages.push_back(std::move(message));
    }
  } else {
    fields.refuse_value("input", "a string, or a list of messages", input);
  }
  return template_messages(messages, "input");
}

// Returns the tools as the chat API has them: with "function" around name, description and parameters.
Json chat_tools(const Json& tools) {
  Json made = Json::array();
  for (const Json& tool : tools.is_array() ? tools : Json::array({tools})) {
    if (!tool.is_object() || tool.value("type", Json()) != "function")
      refuse("tools", "tools: expected a list of {{\"type\": \"function\", \"name\": ...}}, got {}",
             shown(tool));
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters"})
      if (tool.contains(name) && !tool[name].is_null()) function[name] = tool[name];
    made.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return made;
}

// Returns the fields of the chat API for tools and the form of the answer.
Json chat_fields(Fields& fields) {
  Json chat = Json::object();
  if (const Json* tools = fields.find("tools")) chat["tools"] = chat_tools(*tools);
  if (const Json* choice = fields.find("tool_choice")) {
    chat["tool_choice"] = *choice;
    if (choice->is_object() && choice->contains("name"))
      chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", (*choice)["name"]}}}};
  }
  for (const char* name : {"chat_template_kwargs", "structured_outputs", "grammar"})
    if (const Json* given = fields.find(name)) chat[name] = *given;
  const Json* text = fields.find("text");
  if (!text) return chat;
  Fields inner(*text, "text.");
  if (const Json* format = inner.find("format"); format && format->is_object()) {
    chat["response_format"] = *format;
    if (format->value("type", Json()) == "json_schema") {
      Json named = *format;
      named.erase("type");
      chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(named)}};
    }
  } else if (format) {
    inner.refuse_value("format", "an object with a type", *format);
  }
  inner.ignore({"verbosity"});
  inner.refuse_others();
  return chat;
}

void refuse_storage(Fields& fields) {
  if (fields.find("previous_response_id"))
    refuse("previous_response_id",
           "previous_response_id: nothing is stored here; send the whole conversation as input");
  if (fields.flag("background").value_or(false))
    refuse("background", "background: answers are not stored here");
}

Json response_json(const std::string& model, const text::GenerateOptions& options, const Json& body) {
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", seconds_now()},
          {"status", "in_progress"},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", nullptr},
          {"metadata", Json::object()},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", body.contains("tools")},
          {"temperature", options.temperature},
          {"tool_choice", body.value("tool_choice", Json(body.contains("tools") ? "auto" : "none"))},
          {"tools", body.value("tools", Json::array())},
          {"top_p", options.top_p}};
}

}  // namespace

void answer_responses(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const ChosenModel chosen = read_model(fields, call.host);
  const Json messages = read_messages(fields);
  const auto max_tokens = fields.number("max_output_tokens", at_least<int64_t>(1));
  text::GenerateSettings settings = read_settings(fields, model);
  settings.max_tokens = max_tokens.value_or(model.capacity());
  const bool streams = fields.flag("stream").value_or(false);
  refuse_storage(fields);
  const Json chat = chat_fields(fields);
  Fields inner(chat);
  const ToolChoice tools = read_tools(inner);
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                 "truncation", "parallel_tool_calls", "reasoning", "include"});
  fields.refuse_others();
  TextTask task = {
      .prompts = {}, .adapter = chosen.adapter, .options = model.options(settings, true), .streams = streams};
  read_format(inner, model, tools, task);
  task.prompts.push_back(model.encode(model.render(messages, tools.variables), false));
  check_length(model, task.prompts, max_tokens);
  task.headers = answer_headers(task.options, fields);
  task.format =
      std::make_unique<ResponseFormat>(response_json(chosen.name, task.options, body), tools.may_call);
  start_texts(call.language(), std::move(task), call.reply, call.client);
}

}  // namespace genesis::serving
