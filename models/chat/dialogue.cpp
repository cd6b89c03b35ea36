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

std::string role_of(const Value& message) { return *message.dict()->find("role")->text(); }

bool begins_with_system(const Value& messages) {
  const std::vector<Value>& all = messages.sequence()->items;
  return !all.empty() && role_of(all[0]) == "system";
}

// Returns the index behind the last message with this role; 0 if there is none.
size_t behind_last(const Value& messages, const std::string& role) {
  const std::vector<Value>& all = messages.sequence()->items;
  size_t count = all.size();
  while (count > 0 && role_of(all[count - 1]) != role) --count;
  return count;
}

// Returns the index behind the last question: a user message and the tool results after it; 0 if there is none.
size_t behind_question(const Value& messages) {
  const std::vector<Value>& all = messages.sequence()->items;
  const size_t asked = behind_last(messages, "user");
  if (asked == 0) return 0;
  size_t count = all.size();
  while (count > asked && role_of(all[count - 1]) == "assistant") --count;
  return count;
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
  return answer(with(messages_, "user", message), on_piece);
}

Dialogue::Answer Dialogue::answer_again(const std::function<bool(const text::Piece&)>& on_piece) {
  const size_t asked = behind_question(messages_);
  if (asked == 0) fail("there is nothing to answer: the conversation has no message of the user yet");
  return answer(first_messages(messages_, asked), on_piece);
}

bool Dialogue::waits_for_answer() const {
  const size_t asked = behind_question(messages_);
  return asked > 0 && asked == messages_.sequence()->items.size();
}

bool Dialogue::undo() {
  const size_t asked = behind_last(messages_, "user");
  if (asked > 0) messages_ = first_messages(messages_, asked - 1);
  return asked > 0;
}

void Dialogue::set_system(const std::string& system) {
  options_.system = system;
  std::vector<Value> all = messages_.sequence()->items;
  if (begins_with_system(messages_)) all.erase(all.begin());
  if (!system.empty()) all.insert(all.begin(), make_message("system", system));
  messages_ = Value::list(std::move(all));
}

void Dialogue::set_conversation(const Conversation& conversation) {
  messages_ = conversation.messages;
  for (const auto& [name, value] : conversation.variables.entries()) options_.variables.set(name, value);
  if (!begins_with_system(messages_)) return;
  const Value* system = messages_.sequence()->items[0].dict()->find("content");
  if (system && system->text()) options_.system = *system->text();
}

Dialogue::Answer Dialogue::answer(const Value& asked,
                                  const std::function<bool(const text::Piece&)>& on_piece) {
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
