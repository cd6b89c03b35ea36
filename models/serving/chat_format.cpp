#include "models/serving/chat_format.h"

#include <algorithm>

#include "models/serving/token_logprobs.h"

namespace genesis::serving {

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.generated},
          {"total_tokens", usage.prompt + usage.generated},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
}

ChatFormat::ChatFormat(const LanguageModel& model, Options options)
    : model_(model), options_(std::move(options)), choices_(options_.texts) {}

Json ChatFormat::chunk(Json choices) const {
  Json chunk = {{"id", id_},
                {"object", options_.streams ? "chat.completion.chunk" : "chat.completion"},
                {"created", created_},
                {"model", options_.model},
                {"choices", std::move(choices)}};
  if (options_.streams && options_.includes_usage) chunk["usage"] = nullptr;
  return chunk;
}

std::string ChatFormat::chunk_of(size_t text, Json delta, Json logprobs, const Json& reason) const {
  Json choice = {
      {"index", text}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", reason}};
  if (!logprobs.empty()) choice["logprobs"] = {{"content", std::move(logprobs)}, {"refusal", nullptr}};
  return event(chunk(Json::array({std::move(choice)})));
}

std::string ChatFormat::begin() {
  std::string events;
  for (size_t text = 0; text < choices_.size(); ++text)
    events += chunk_of(text, {{"role", "assistant"}, {"content", ""}}, {}, {});
  return events;
}

// Keeps what was found, and returns its events.
std::string ChatFormat::take(size_t text, const ToolText& found, Json logprobs) {
  Choice& choice = choices_[text];
  std::string events;
  if (!found.text.empty() || !logprobs.empty()) {
    choice.content += found.text;
    if (options_.streams) events += chunk_of(text, {{"content", found.text}}, logprobs, {});
    for (Json& each : logprobs) choice.logprobs.push_back(std::move(each));
  }
  for (const ToolCall& call : found.calls) {
    Json made = {{"id", random_id("call_")},
                 {"type", "function"},
                 {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    Json delta = {{"index", choice.calls.size()}};
    delta.update(made);
    if (options_.streams) events += chunk_of(text, {{"tool_calls", Json::array({delta})}}, {}, {});
    choice.calls.push_back(std::move(made));
  }
  return events;
}

std::string ChatFormat::add(size_t text, const std::string& piece,
                            std::span<const text::TokenLogprob> logprobs) {
  ToolText found = {.text = piece};
  if (options_.parses_calls) found = choices_[text].reader.add(piece);
  return take(text, found, logprobs_json(model_, logprobs));
}

std::string ChatFormat::end(size_t text, const text::GenerateResult& result) {
  Choice& choice = choices_[text];
  std::string events;
  if (options_.parses_calls) events = take(text, choice.reader.finish(), {});
  choice.reason = choice.calls.empty() ? finish_reason(result.stop_reason) : "tool_calls";
  return options_.streams ? events + chunk_of(text, Json::object(), {}, choice.reason) : "";
}

std::string ChatFormat::finish(const Usage& usage) {
  std::string events;
  if (options_.includes_usage) {
    Json last = chunk(Json::array());
    last["usage"] = usage_json(usage);
    events = event(last);
  }
  return events + "data: [DONE]\n\n";
}

Json ChatFormat::whole(const Usage& usage) {
  Json choices = Json::array();
  for (size_t text = 0; text < choices_.size(); ++text) {
    Choice& choice = choices_[text];
    Json message = {{"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}};
    if (!choice.calls.empty()) {
      if (choice.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = std::move(choice.calls);
    }
    Json logprobs;
    if (options_.has_logprobs) logprobs = {{"content", std::move(choice.logprobs)}, {"refusal", nullptr}};
    choices.push_back({{"index", text},
                       {"message", std::move(message)},
                       {"logprobs", std::move(logprobs)},
                       {"finish_reason", choice.reason}});
  }
  Json answer = chunk(std::move(choices));
  answer["usage"] = usage_json(usage);
  return answer;
}

}  // namespace genesis::serving
