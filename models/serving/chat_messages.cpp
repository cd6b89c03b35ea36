#include "models/serving/chat_messages.h"

#include <fmt/core.h>

#include <algorithm>

namespace genesis::serving {
namespace {

// Templates write arguments as JSON by themselves.
void parse_arguments(Json& call) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return;
  Json& function = call["function"];
  if (!function.contains("arguments") || !function["arguments"].is_string()) return;
  const auto parsed = try_parse(function["arguments"].get<std::string>());
  if (parsed && parsed->is_object()) function["arguments"] = *parsed;
}

Json template_message(const Json& given, const std::string& place) {
  if (!given.is_object())
    refuse(place, "{}: expected an object with a role and a content, got {}", place, shown(given));
  Json message = given;
  if (!message.contains("role") || !message["role"].is_string())
    refuse(place + ".role", "{}.role: expected a string, such as \"user\"", place);
  if (message["role"] == "developer") message["role"] = "system";
  if (message.contains("content") && !message["content"].is_null())
    message["content"] = content_text(message["content"], place + ".content");
  else if (!message.contains("tool_calls"))
    refuse(place + ".content", "{}.content is missing: expected a string", place);
  if (message.contains("tool_calls") && message["tool_calls"].is_array())
    for (Json& call : message["tool_calls"]) parse_arguments(call);
  return message;
}

void check_tools(const Json& tools) {
  const auto is_function = [](const Json& tool) {
    return tool.is_object() && tool.value("type", Json()) == "function" && tool.contains("function") &&
           tool["function"].is_object() && tool["function"].contains("name") &&
           tool["function"]["name"].is_string();
  };
  if (!tools.is_array() || !std::ranges::all_of(tools, is_function))
    refuse("tools", "tools: expected a list of {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}");
}

void read_tool_choice(Fields& fields, ToolChoice& choice) {
  const Json* given = fields.find("tool_choice");
  if (!given || *given == "auto") return;
  if (*given == "none") {
    choice.may_call = false;
    choice.variables.erase("tools");
    return;
  }
  const char* const expected =
      "\"auto\", \"none\", \"required\", or {\"type\": \"function\", \"function\": {\"name\": ...}}";
  if (!choice.may_call) refuse("tool_choice", "tool_choice: the request has no tools");
  choice.must_call = true;
  if (*given == "required") return;
  if (!given->is_object() || !given->contains("function") || !(*given)["function"].is_object())
    fields.refuse_value("tool_choice", expected, *given);
  const Json name = (*given)["function"].value("name", Json());
  if (!name.is_string()) fields.refuse_value("tool_choice", expected, *given);
  choice.name = name.get<std::string>();
}

}  // namespace

std::string content_text(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(place, "{}: expected a string, or a list of parts, got {}", place, shown(content));
  std::string text;
  for (const Json& part : content) {
    const Json kind = part.is_object() ? part.value("type", Json()) : Json();
    const bool is_text = kind == "text" || kind == "input_text" || kind == "output_text";
    if (!is_text || !part.contains("text") || !part["text"].is_string())
      refuse(place, "{}: expected parts {{\"type\": \"text\", \"text\": ...}}, got one of the type {}", place,
             shown(kind));
    text += part["text"].get<std::string>();
  }
  return text;
}

Json template_messages(const Json& messages, const std::string& name) {
  if (!messages.is_array() || messages.empty())
    refuse(name, "{}: expected a list of one or more messages, got {}", name,
           messages.is_array() ? "none" : shown(messages));
  Json made = Json::array();
  for (size_t i = 0; i < messages.size(); ++i)
    made.push_back(template_message(messages[i], fmt::format("{}[{}]", name, i)));
  return made;
}

ToolChoice read_tools(Fields& fields) {
  ToolChoice choice;
  if (const Json* more = fields.find("chat_template_kwargs")) {
    if (!more->is_object()) fields.refuse_value("chat_template_kwargs", "an object", *more);
    choice.variables = *more;
  }
  if (const Json* tools = fields.find("tools")) {
    check_tools(*tools);
    choice.may_call = !tools->empty();
    if (choice.may_call) choice.variables["tools"] = *tools;
  }
  read_tool_choice(fields, choice);
  return choice;
}

}  // namespace genesis::serving
