// Tests splitting bytes of a terminal into characters and pastes, however the bytes are divided among reads.
#include "tools/chat/typed_keys.h"

#include <gtest/gtest.h>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::tools {
namespace {

// Returns the typed text, with pastes in [], and | for new lines that do not send the message.
std::string text_of(TypedKeys& keys) {
  std::string text;
  while (const auto key = keys.next()) {
    if (key->kind == Key::Kind::kCharacter) utf8::append(text, key->character);
    if (key->kind == Key::Kind::kNewLine) text += "|";
    if (key->kind == Key::Kind::kPaste) text += "[" + key->paste + "]";
  }
  return text;
}

std::string read(const std::string& bytes, size_t each) {
  TypedKeys keys;
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += each) {
    keys.add(std::string_view(bytes).substr(at, each));
    text += text_of(keys);
  }
  keys.settle();
  return text + text_of(keys);
}

TEST(TypedKeys, AreTheSameInReadsOfAnySize) {
  const std::string bytes =
      "aé你\x1b[A\x1b\r\x1b[200~line 1\r\nline 2\rline 3\n\x1b[201~\xff"
      "b\x1b[200~\x1b[201~\x1b";
  for (size_t each = 1; each <= bytes.size(); ++each)
    EXPECT_EQ(read(bytes, each),
              "aé你\x1b[A|[line 1\nline 2\nline 3\n]\uFFFD"
              "b[]\x1b")
        << each;
}

TEST(TypedKeys, ALongRunIsAPaste) {
  const std::string run(20000, 'x');
  EXPECT_EQ(read(run + "\rb\r", 4095), "[" + run + "]\rb\r");
  EXPECT_EQ(read(run, 100000), "[" + run + "]");
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "a line\r";
  EXPECT_EQ(read(lines, 65536), lines);
}

TEST(TypedKeys, APasteHasALimit) {
  TypedKeys keys;
  keys.add(kPasteBegin);
  const std::string part(1 << 20, 'x');
  EXPECT_THROW(
      for (int i = 0; i < 17; ++i) {
        keys.add(part);
        EXPECT_FALSE(keys.next());
      },
      Error);
}

}  // namespace
}  // namespace genesis::tools
