// Tests that characters newer than the oldest PCRE2 and utf8proc are treated as in `tokenizers` (newer.json, made by
// make_newer.py), whatever Unicode version these libraries have here.
#include "models/tokenizer/unicode/newer_characters.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/tokenizer/split_expression.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/unicode/unicode.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

const json& expected() {
  static const json file =
      parse_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/newer.json"));
  return file;
}

// Computes FNV-1a.
uint32_t checksum_of(std::string_view text) {
  uint32_t sum = 0x811c9dc5;
  for (const unsigned char byte : text) sum = (sum ^ byte) * 0x01000193;
  return sum;
}

std::string character(uint32_t code) {
  std::string text;
  utf8::append(text, code);
  return text;
}

// Returns all characters that `expression` matches; `member` is one of them.
std::string matched_by(const std::string& expression, uint32_t member) {
  std::string all = character(member), matched;
  for (uint32_t code = 0; code < 0x110000; ++code)
    if (code < 0xd800 || code > 0xdfff) utf8::append(all, code);
  MatchState state;
  SplitExpression(expression).split(all, state, [&](std::string_view word, bool is_match) {
    if (is_match) matched += word;
  });
  return matched.substr(character(member).size());
}

TEST(NewerCharacters, HaveTheClassesOfTokenizers) {
  for (const auto& [name, facts] : expected()["classes"].items())
    EXPECT_EQ(checksum_of(matched_by("\\p{" + name + "}+", facts[0])), facts[1].get<uint32_t>()) << name;
}

TEST(NewerCharacters, ComposeAsInTokenizers) {
  for (const json& form : expected()["forms"]) {
    std::string storage;
    EXPECT_EQ(nfc(form[0].get<std::string>(), storage), form[1].get<std::string>());
  }
}

TEST(NewerCharacters, MakeTheIdsOfTokenizers) {
  for (const char* kind : {"gpt2", "qwen", "llama", "digits"}) {
    const Tokenizer tokenizer = Tokenizer::parse(expected()[kind]["file"].dump());
    for (size_t i = 0; i < expected()["texts"].size(); ++i) {
      const auto text = expected()["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), expected()[kind]["ids"][i].get<std::vector<int64_t>>())
          << kind << ": " << text;
    }
  }
}

// Uses U+1C89, a letter since Unicode 16, with expressions that name it or others.
TEST(NewerCharacters, AreThemselvesWhereAnExpressionNamesThem) {
  const std::string text = "a\u1c89b\u2102";  // U+2102 replaces it internally
  const std::vector<std::pair<std::string, std::string>> cases = {{"\u1c89", "a|\u1c89|b\u2102|"},
                                                                  {"[\u1c00-\u1cff]", "a|\u1c89|b\u2102|"},
                                                                  {"\u2102", "a\u1c89b|\u2102|"},
                                                                  {"\\p{Lu}", "a|\u1c89|b|\u2102|"}};
  for (const auto& [expression, words] : cases) {
    MatchState state;
    std::string got;
    SplitExpression(expression).split(text, state, [&](std::string_view word, bool) {
      got += word;
      got += '|';
    });
    EXPECT_EQ(got, words) << expression;
  }
}

TEST(NewerCharacters, KeepTheirBytes) {
  for (uint32_t code = 0; code < 0x110000; ++code)
    if (code < 0xd800 || code > 0xdfff) {
      EXPECT_EQ(character(stand_in(code)).size(), character(code).size()) << code;
      EXPECT_EQ(stand_in(stand_in(code)), stand_in(code)) << code;
    }
}

}  // namespace
}  // namespace genesis::text
