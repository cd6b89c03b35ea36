// Messages of several lines, out of single lines. Used by tools/chat/chat_loop.cpp.
#pragma once

#include <optional>
#include <string>

namespace genesis::tools {

struct Message {
  std::string text;
  bool is_quoted = false;  // it stood between """, so that it is no command
};

// A message is one line, or the lines between """ and """, or a line that ends with a backslash and the next. A line with line
// feeds in it, as an editor gives it for a paste, is a whole message.
class MessageLines {
 public:
  // `joins_backslash`: whether a backslash at the end of a line continues it. In a pipe it stays text, as a program may have
  // written any line.
  explicit MessageLines(bool joins_backslash) : joins_backslash_(joins_backslash) {}

  // The message that ends with this line, without its line feed; nothing while more lines belong to it.
  std::optional<Message> add(const std::string& line);
  // At the end of the input: the message that has begun, if one has. Throws Error where its """ is missing.
  std::optional<Message> finish();
  void clear() { text_.reset(); }
  bool has_begun() const { return text_.has_value(); }

 private:
  bool joins_backslash_;
  std::optional<std::string> text_;  // of the lines so far
  bool is_quoted_ = false;
};

}  // namespace genesis::tools
