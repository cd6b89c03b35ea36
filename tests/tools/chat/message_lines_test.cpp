// Tests joining lines that a user types or pastes to messages.
#include "tools/chat/message_lines.h"

#include <gtest/gtest.h>

#include "schema/core/error.h"

namespace genesis::tools {
namespace {

// Returns the messages of these lines; a quoted one is enclosed in <>.
std::vector<std::string> messages(const std::vector<std::string>& lines, bool joins_backslash = true) {
  MessageLines reader(joins_backslash);
  std::vector<std::string> all;
  const auto keep = [&](const std::optional<Message>& message) {
    if (message) all.push_back(message->is_quoted ? "<" + message->text + ">" : message->text);
  };
  for (const std::string& line : lines) keep(reader.add(line));
  keep(reader.finish());
  return all;
}

using Texts = std::vector<std::string>;

TEST(MessageLines, ALineIsAMessage) { EXPECT_EQ(messages({"a", "", "/b"}), (Texts{"a", "", "/b"})); }

TEST(MessageLines, QuotesHoldSeveralLines) {
  EXPECT_EQ(messages({"\"\"\"", "a", " b", "\"\"\"", "c"}), (Texts{"<a\n b>", "c"}));
  EXPECT_EQ(messages({"\"\"\"a", "", "/b\\", "c\"\"\""}), (Texts{"<a\n\n/b\\\nc>"}));
  EXPECT_EQ(messages({"\"\"\"one line\"\"\"", "\"\"\"\"\"\""}), (Texts{"<one line>", "<>"}));
  EXPECT_EQ(messages({"a\"\"\"", "b"}), (Texts{"a\"\"\"", "b"}));
}

TEST(MessageLines, ABackslashGoesOnInTheNextLine) {
  EXPECT_EQ(messages({"a\\", "b\\", "c", "d"}), (Texts{"a\nb\nc", "d"}));
  EXPECT_EQ(messages({"C:\\\\", "d"}), (Texts{"C:\\\\", "d"}));
  EXPECT_EQ(messages({"a\\"}), (Texts{"a"}));
  EXPECT_EQ(messages({"a\\", "b"}, false), (Texts{"a\\", "b"}));
}

TEST(MessageLines, APasteIsAMessage) {
  EXPECT_EQ(messages({"\"\"\"Doc.\"\"\"\nimport os\\", "b"}), (Texts{"\"\"\"Doc.\"\"\"\nimport os\\", "b"}));
}

TEST(MessageLines, QuotesWithoutAnEndAreAnError) {
  MessageLines reader(true);
  reader.add("\"\"\"a");
  EXPECT_TRUE(reader.has_begun());
  EXPECT_THROW(reader.finish(), Error);
  EXPECT_FALSE(reader.finish());
  reader.add("a\\");
  reader.clear();
  EXPECT_EQ(reader.add("b")->text, "b");
}

}  // namespace
}  // namespace genesis::tools
