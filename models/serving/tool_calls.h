// Finds the calls of tools in the text of an answer. Models write them as JSON {"name": ..., "arguments": {...}} (or
// "parameters"): between <tool_call> and </tool_call> (Hermes, Qwen, SmolLM3), as a list behind [TOOL_CALLS] (Mistral), or as the
// whole answer, possibly behind <|python_tag|> (Llama 3).
#pragma once

#include <string>
#include <vector>

namespace genesis::serving {

struct ToolCall {
  std::string name, arguments;  // arguments: JSON
};

struct ToolText {
  std::string text;  // text beside the calls
  std::vector<ToolCall> calls = {};
};

class ToolCallReader {
 public:
  // Takes the next piece of the answer. Returns what is certain by now: text that may begin a call is held back.
  ToolText add(const std::string& piece);
  // Returns the rest, when the answer has ended. A call that is incomplete or is no JSON is text.
  ToolText finish();

 private:
  bool read_marked(ToolText& found);

  std::string held_;
  bool has_text_ = false;  // text came before: the whole answer is no call
};

}  // namespace genesis::serving
