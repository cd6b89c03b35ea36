// Joins single lines to messages of several lines.
#pragma once

#include <optional>
#include <string>

namespace genesis::tools {

struct Message {
  std::string text;
  bool is_quoted = false;  // it was enclosed in """, so it is not a command
};

// A message is a single line, or the lines between """ and """, or a line that ends with a backslash together with
// the next line. A line that contains line feeds, as an editor returns it for a paste, is a whole message.
class MessageLines {
 public:
  // `joins_backslash`: if true, a backslash at the end continues the line. In a pipe it is false, since a program may
  // have written any line.
  explicit MessageLines(bool joins_backslash) : joins_backslash_(joins_backslash) {}

  // Adds a line without its line feed. Returns the message that this line completes, or nothing if more lines belong
  // to it.
  std::optional<Message> add(const std::string& line);
  // Returns the unfinished message at the end of the input, if there is one. Throws Error if its closing """ is
  // missing.
  std::optional<Message> finish();
  void clear() { text_.reset(); }
  bool has_begun() const { return text_.has_value(); }

 private:
  bool joins_backslash_;
  std::optional<std::string> text_;  // text of the lines so far
  bool is_quoted_ = false;
};

}  // namespace genesis::tools
