// How a conversation becomes the text that a model reads: the template that comes with its tokenizer. What it renders is what
// apply_chat_template() of transformers renders.
//
//   const auto chat = chat::ChatTemplate::load("Qwen2.5-0.5B-Instruct");
//   const std::string prompt = chat.render(chat::parse_messages(R"([{"role": "user", "content": "Hi"}])"), {.add_generation_prompt = true}).text;
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "models/chat/jinja/template.h"
#include "models/chat/json_config.h"

namespace genesis::chat {

// A list of mappings with a text "role" each, and what else the template reads, "content" above all. From JSON; throws Error
// that names the message (from 0) which is something else.
jinja::Value parse_messages(std::string_view json);

// Messages, and what else their template reads.
struct Conversation {
  jinja::Value messages;
  jinja::Dict variables;
};
// From JSON: a list of messages, or an object with one and more, as a line of data to train on has it:
// {"messages": [...], "tools": [...]}. Throws Error as parse_messages does.
Conversation parse_conversation(std::string_view json);
// What such an object brings for its template beside the messages, by the names that Hugging Face's trainers have.
jinja::Dict template_variables(const jinja::Dict& object);

void check_messages(const jinja::Value& messages);
// Prepares messages as transformers does: keys whose value is null are left out ("content" beside "tool_calls"), and
// what was thought stands under each of "reasoning_content", "thinking" and "reasoning", since templates read one and data has
// another. The same list where nothing changes.
jinja::Value normalized_messages(const jinja::Value& messages);
jinja::Value make_message(const std::string& role, const std::string& content);
// The first `count` of them.
jinja::Value first_messages(const jinja::Value& messages, size_t count);

struct RenderOptions {
  bool add_generation_prompt = false;  // end with what an answer begins with
  jinja::Dict variables = {};          // more that the template sees: enable_thinking, tools
  std::time_t now = std::time(nullptr);
};

// Never changes, so that threads may share one; copies are the same template.
class ChatTemplate {
 public:
  // A folder as transformers saves it: chat_template.jinja, or "chat_template" of tokenizer_config.json, where one of several
  // is the one named "default"; or a file .jinja, beside which tokenizer_config.json may stand. Throws Error that names the
  // file, where there is no template, it is larger than 1 MiB, or it asks for what is not supported.
  static ChatTemplate load(const std::filesystem::path& path);
  // The same of files that a folder or a model has.
  static ChatTemplate from(const ConfigFiles& files);
  // The template's text; special tokens by name: {"eos_token", "<|im_end|>"}.
  static ChatTemplate parse(std::string_view source, std::map<std::string, std::string> special_tokens = {});

  // Throws Error where the template refuses the messages, or takes too much (models/chat/jinja/values/budget.h).
  jinja::Rendered render(const jinja::Value& messages, const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }
  // "eos_token" and its kin; empty where the folder names none.
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
