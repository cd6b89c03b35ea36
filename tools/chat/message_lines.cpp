#include "tools/chat/message_lines.h"

#include <utility>

#include "schema/core/error.h"

namespace genesis::tools {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr size_t kMaxMessage = size_t{16} << 20;

// Returns true if the line ends with a backslash that continues it. An even number of backslashes at the end is text.
bool continues(const std::string& line) {
  const size_t last = line.find_last_not_of('\\');
  return (line.size() - (last == std::string::npos ? 0 : last + 1)) % 2 == 1;
}

}  // namespace

std::optional<Message> MessageLines::add(const std::string& line) {
  if (!text_ && line.find('\n') != std::string::npos) return Message{line, false};
  std::string_view rest = line;
  if (!text_ && rest.starts_with(kQuotes)) {
    rest.remove_prefix(kQuotes.size());
    is_quoted_ = true;
    if (rest.empty()) return void(text_.emplace()), std::nullopt;
  } else if (!text_) {
    is_quoted_ = false;
  }
  const bool ends = is_quoted_ ? rest.ends_with(kQuotes) : !(joins_backslash_ && continues(line));
  if (is_quoted_ && ends) rest.remove_suffix(kQuotes.size());
  if (!is_quoted_ && !ends) rest.remove_suffix(1);
  std::string text = text_ ? std::move(*text_) : "";
  text += rest;
  if (ends && is_quoted_ && rest.empty() && text.ends_with('\n')) text.pop_back();
  text_.reset();
  if (text.size() > kMaxMessage) fail("a message has more than {} bytes", kMaxMessage);
  if (ends) return Message{std::move(text), is_quoted_};
  text_ = std::move(text) + "\n";
  return std::nullopt;
}

std::optional<Message> MessageLines::finish() {
  if (!text_) return std::nullopt;
  std::string text = *std::exchange(text_, std::nullopt);
  if (is_quoted_) fail("the message that begins with \"\"\" has no \"\"\" at its end");
  if (text.ends_with('\n')) text.pop_back();
  return Message{std::move(text), false};
}

}  // namespace genesis::tools
