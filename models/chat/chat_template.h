// Renders a conversation to the text that a model reads, with the chat template that comes with its tokenizer. The result equals
// that of apply_chat_template() of transformers.
//
//     const auto chat = chat::ChatTemplate::load("Qwen2.5-0.5B-Instruct");
//     const std::string prompt = chat.render(chat::parse_messages(R"([{"role": "user", "content": "Hi"}])"),
//                                            {.add_generation_prompt = true}).text;
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "models/chat/jinja/template.h"

namespace genesis::chat {

class ConfigFiles;  // models/chat/json_config.h

// Reads a list of objects, each with a string "role" and the keys that the template reads, above all "content", from JSON. Throws
// Error that names the first message (from 0) of another form.
jinja::Value parse_messages(std::string_view json);

// Messages, and the other variables that their template reads.
struct Conversation {
  jinja::Value messages;
  jinja::Dict variables;
};
// Reads a conversation from JSON: a list of messages, or an object with such a list and more, as a line of training data has it:
// {"messages": [...], "tools": [...]}. Throws Error as parse_messages does.
Conversation parse_conversation(std::string_view json);
// Returns the template variables that such an object has beside its messages, by the names that Hugging Face's trainers use.
jinja::Dict template_variables(const jinja::Dict& object);

void check_messages(const jinja::Value& messages);
// Prepares messages as transformers does. Keys whose value is null are dropped ("content" beside "tool_calls"). Reasoning is
// stored under each of "reasoning_content", "thinking" and "reasoning", since templates read one name and data has another.
// Returns the same list if nothing changes.
jinja::Value normalized_messages(const jinja::Value& messages);
jinja::Value make_message(const std::string& role, const std::string& content);
// Returns the first `count` messages.
jinja::Value first_messages(const jinja::Value& messages, size_t count);

struct RenderOptions {
  bool add_generation_prompt = false;  // append the beginning of an answer
  jinja::Dict variables = {};          // more template variables: enable_thinking, tools
  std::time_t now = std::time(nullptr);
};

// A compiled template. It is immutable, so that threads may share one.
class ChatTemplate {
 public:
  // Loads a folder as transformers saves it: chat_template.jinja, or "chat_template" of tokenizer_config.json, which may be a
  // list with one named "default". Or loads a .jinja file, beside which tokenizer_config.json may stand. Throws Error that names
  // the file if there is no template, if it is larger than 1 MiB, or if it uses an unsupported feature.
  static ChatTemplate load(const std::filesystem::path& path);
  // Does the same with the files of a folder or a model.
  static ChatTemplate from(const ConfigFiles& files);
  // Compiles the text of a template. `special_tokens` are by name: {"eos_token", "<|im_end|>"}.
  static ChatTemplate parse(std::string_view source, std::map<std::string, std::string> special_tokens = {});

  // Throws Error if the template refuses the messages, or exceeds its limits (models/chat/jinja/values/budget.h).
  jinja::Rendered render(const jinja::Value& messages, const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }
  // Returns the token named "eos_token" or the like; empty if the folder does not name one.
  std::string special_token(const std::string& name) const;

 private:
  ChatTemplate(std::string source, std::map<std::string, std::string> special_tokens,
               jinja::Template compiled)
      : source_(std::move(source)),
        special_tokens_(std::move(special_tokens)),
        template_(std::move(compiled)) {}

  std::string source_;
  std::map<std::string, std::string> special_tokens_;
  jinja::Template template_;
};

}  // namespace genesis::chat
