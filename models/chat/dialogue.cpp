#include "models/chat/dialogue.h"

#include <algorithm>

#include "models/chat/jinja/values/write_value.h"

namespace genesis::chat {
namespace {

using jinja::Value;

Value with(const Value& messages, const std::string& role, const std::string& content) {
  std::vector<Value> all = messages.sequence()->items;
  all.push_back(make_message(role, content));
  return Value::list(std::move(all));
}

}  // namespace

Dialogue::Dialogue(ChatTemplate chat, text::Tokenizer tokenizer, text::Generator& generator,
                   DialogueOptions options)
    : chat_(std::move(chat)),
      tokenizer_(std::move(tokenizer)),
      generator_(&generator),
      options_(std::move(options)) {
  reset();
}

void Dialogue::reset() {
  messages_ = Value::list({});
  if (!options_.system.empty()) messages_ = with(messages_, "system", options_.system);
}

std::vector<int64_t> Dialogue::prompt_tokens(const Value& messages) const {
  const std::string text =
      chat_.render(messages, {.add_generation_prompt = true, .variables = options_.variables}).text;
  std::vector<int64_t> tokens = tokenizer_.encode(text, false);
  if (tokens.empty()) fail("the chat template made no text of the conversation: there is nothing to answer");
  return tokens;
}

Dialogue::Answer Dialogue::reply(const std::string& message,
                                 const std::function<bool(const text::Piece&)>& on_piece) {
  const Value asked = with(messages_, "user", message);
  const std::vector<int64_t> prompt = prompt_tokens(asked);
  Answer answer;
  answer.prompt_tokens = static_cast<int64_t>(prompt.size());
  if (options_.make_room)
    generator_ = &options_.make_room(answer.prompt_tokens + options_.generate.max_tokens);
  if (answer.prompt_tokens > generator_->capacity())
    fail("the conversation has {} tokens and the model's context {}: begin a new one", answer.prompt_tokens,
         generator_->capacity());
  const auto differs = std::ranges::mismatch(prompt, generator_->tokens()).in1;
  generator_->rewind(differs - prompt.begin());
  answer.result = generator_->continue_with({differs, prompt.end()}, options_.generate, on_piece);
  answer.reused_tokens = answer.prompt_tokens - answer.result.prefilled;
  messages_ = with(asked, "assistant", answer.result.text);
  return answer;
}

std::string messages_line(const Value& messages) {
  jinja::Dict object;
  object.set("messages", messages);
  jinja::Budget budget({});
  return to_json(budget, Value::dict(std::move(object)), {});
}

}  // namespace genesis::chat
