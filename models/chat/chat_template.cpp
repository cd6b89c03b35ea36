#include "models/chat/chat_template.h"

#include "models/chat/jinja/values/json_value.h"
#include "models/chat/json_config.h"
#include "schema/file/io/file_ending.h"

namespace genesis::chat {
namespace {

namespace fs = std::filesystem;
using jinja::Value;
using nlohmann::json;

// Returns the special tokens of tokenizer_config.json, which are strings or objects of added tokens.
std::map<std::string, std::string> special_tokens(const json& config) {
  std::map<std::string, std::string> tokens;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    if (found->is_string())
      tokens[name] = found->get<std::string>();
    else if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
      tokens[name] = (*found)["content"].get<std::string>();
  }
  return tokens;
}

std::string named_template(const json& templates) {
  std::string names;
  for (const json& one : templates) {
    if (!one.is_object() || !one.contains("name") || !one.contains("template") || !one["name"].is_string() ||
        !one["template"].is_string())
      fail("'chat_template' has a row without the texts 'name' and 'template'");
    if (one["name"] == "default") return one["template"].get<std::string>();
    names += (names.empty() ? "" : ", ") + one["name"].get<std::string>();
  }
  fail("none of the chat templates ({}) is named 'default'", names);
}

std::string source_in(const json& config) {
  const auto found = config.find("chat_template");
  if (found != config.end() && found->is_string()) return found->get<std::string>();
  if (found != config.end() && found->is_array()) return named_template(*found);
  fail(
      "there is no chat template: a folder has it in chat_template.jinja or as 'chat_template' in "
      "tokenizer_config.json; models that are not made for conversations have none");
}

}  // namespace

Value parse_messages(std::string_view text) {
  Value messages = jinja::parse_json(text);
  check_messages(messages);
  return messages;
}

jinja::Dict template_variables(const jinja::Dict& object) {
  jinja::Dict variables;
  for (const char* name : {"tools", "documents"})
    if (const Value* value = object.find(name)) variables.set(name, *value);
  if (const Value* more = object.find("chat_template_kwargs"); more && !more->is_none()) {
    if (!more->dict()) fail("'chat_template_kwargs' is no object, but {}", type_name(*more));
    for (const auto& [name, value] : more->dict()->entries()) variables.set(name, value);
  }
  return variables;
}

Conversation parse_conversation(std::string_view text) {
  Conversation conversation{jinja::parse_json(text), {}};
  if (const jinja::Dict* object = conversation.messages.dict()) {
    const Value* messages = object->find("messages");
    if (!messages) fail("expected a list of messages, or an object with 'messages', got an object without");
    conversation = {Value(*messages), template_variables(*object)};
  }
  check_messages(conversation.messages);
  return conversation;
}

void check_messages(const Value& messages) {
  if (!messages.sequence()) fail("messages are a list of objects, got {}", type_name(messages));
  for (size_t i = 0; i < messages.sequence()->items.size(); ++i) {
    const jinja::Dict* message = messages.sequence()->items[i].dict();
    if (!message) fail("message {} is no object with a 'role' and a 'content'", i);
    const Value* role = message->find("role");
    if (!role || !role->text()) fail("message {} has no 'role' that is a text", i);
    if (!message->find("content") && !message->find("tool_calls"))
      fail("message {}, of the {}, has no 'content'", i, *role->text());
  }
}

namespace {

// APIs and templates have several names for the reasoning before an answer. The first that is present counts.
constexpr const char* kThoughts[] = {"reasoning_content", "thinking", "reasoning"};

// Returns a message without keys whose value is null, and with its reasoning under all of its names, as transformers passes it to
// the template.
Value normalized(const Value& message) {
  const jinja::Dict& given = *message.dict();
  const Value* thoughts = nullptr;
  bool has_null = false, lacks_name = false;
  for (const char* name : kThoughts) {
    const Value* found = given.find(name);
    lacks_name = lacks_name || !found;
    if (!thoughts && found && !found->is_none()) thoughts = found;
  }
  for (const auto& [key, value] : given.entries()) has_null = has_null || value.is_none();
  if (!has_null && (!thoughts || !lacks_name)) return message;
  jinja::Dict result;
  if (thoughts) result.set("thinking", *thoughts);
  for (const auto& [key, value] : given.entries())
    if (!value.is_none()) result.set(key, value);
  if (thoughts)
    for (const char* name : kThoughts)
      if (!result.find(name)) result.set(name, *thoughts);
  return Value::dict(std::move(result));
}

}  // namespace

Value normalized_messages(const Value& messages) {
  std::vector<Value> all;
  bool changed = false;
  for (const Value& message : messages.sequence()->items) {
    all.push_back(message.dict() ? normalized(message) : message);
    changed = changed || all.back().dict() != message.dict();
  }
  return changed ? Value::list(std::move(all)) : messages;
}

Value make_message(const std::string& role, const std::string& content) {
  jinja::Dict message;
  message.set("role", role);
  message.set("content", content);
  return Value::dict(std::move(message));
}

Value first_messages(const Value& messages, size_t count) {
  const std::vector<Value>& all = messages.sequence()->items;
  return Value::list({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)});
}

ChatTemplate ChatTemplate::load(const fs::path& path) {
  if (fs::is_directory(path)) return from(ConfigFiles::in_folder(path));
  if (!fs::exists(path)) fail("there is no {}", path.string());
  const json config =
      ConfigFiles::in_folder(path.parent_path()).object("tokenizer_config.json").value_or(json::object());
  return with_context(
      [&] {
        return parse(file_ending(path) == ".jinja" ? read_limited(path) : source_in(config),
                     special_tokens(config));
      },
      [&] { return path.string(); });
}

ChatTemplate ChatTemplate::from(const ConfigFiles& files) {
  const json config = files.object("tokenizer_config.json").value_or(json::object());
  const auto source = files.find("chat_template.jinja");
  return with_context([&] { return parse(source ? *source : source_in(config), special_tokens(config)); },
                      [&] { return files.where(source ? "chat_template.jinja" : "tokenizer_config.json"); });
}

ChatTemplate ChatTemplate::parse(std::string_view source, std::map<std::string, std::string> special_tokens) {
  auto compiled =
      with_context([&] { return jinja::Template::parse(source); }, [] { return "in the chat template"; });
  return {std::string(source), std::move(special_tokens), std::move(compiled)};
}

jinja::Rendered ChatTemplate::render(const Value& messages, const RenderOptions& options) const {
  jinja::Dict variables;
  variables.set("messages", normalized_messages(messages));
  variables.set("tools", jinja::None{});
  variables.set("documents", jinja::None{});
  variables.set("add_generation_prompt", options.add_generation_prompt);
  for (const auto& [name, token] : special_tokens_) variables.set(name, token);
  for (const auto& [name, value] : options.variables.entries()) variables.set(name, value);
  return with_context([&] { return template_.render(variables, options.now); },
                      [] { return "in the chat template"; });
}

std::string ChatTemplate::special_token(const std::string& name) const {
  const auto found = special_tokens_.find(name);
  return found == special_tokens_.end() ? "" : found->second;
}

}  // namespace genesis::chat
