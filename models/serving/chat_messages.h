// Messages of OpenAI's APIs as chat templates read them.
#pragma once

#include "models/serving/fields.h"
#include "models/serving/json.h"

namespace genesis::serving {

// Returns the messages with contents that are texts, and with arguments of tool calls that are objects. Throws ApiError for parts
// of other kinds, such as pictures. `name`: the field, for messages.
Json template_messages(const Json& messages, const std::string& name);

// Returns the text of a content that is a string or a list of text parts.
std::string content_text(const Json& content, const std::string& place);

// The part of a request that the template sees beside the messages: "tools" and the entries of "chat_template_kwargs".
struct ToolChoice {
  Json variables = Json::object();
  bool may_call = false;  // there are tools, and the request does not forbid them
  bool must_call = false;
  std::string name = {};  // the tool that must be called; empty: any
};
ToolChoice read_tools(Fields& fields);

}  // namespace genesis::serving
