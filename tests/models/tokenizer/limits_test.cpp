// Tests small files and texts that could cost much work or memory: they take linear time, or are refused by an error.
// The sizes are chosen so that quadratic time would be minutes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/literal.h"
#include "models/tokenizer/split_expression.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/unicode/unicode.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

json fixture() {
  return parse_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/gpt2.json"));
}

std::string repeated(const std::string& piece, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += piece;
  return text;
}

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

void expect_said(const std::string& said, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in: " << said.substr(0, 600);
}

json split_by(const std::string& expression) {
  return {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

TEST(Limits, MarksAreSortedInTimeThatGrowsWithTheText) {
  const std::string marks = repeated("\u0301\u0323", 60'000);
  std::string storage;
  const std::string composed(nfc("e" + marks, storage));
  EXPECT_EQ(composed.substr(0, 9), "\u1eb9\u0323\u0323\u0323");
  EXPECT_EQ(composed.size(), 3 + 4 * 60'000u - 2);
  for (const auto form : {NormalizationForm::kD, NormalizationForm::kKC, NormalizationForm::kKD})
    EXPECT_GT(normalized("e" + marks, form, storage).size(), 200'000u);
}

// The message has the file, the expression and a remedy.
TEST(Limits, ExpressionsThatTryTooManyWaysAreRefused) {
  json file = fixture();
  const std::string text(4400, 'a');
  for (const char* expression : {"a*a*a*b|a", "(?:(?:a+)+)+b|a", "(?:a|a)*b|a", "(?:a*)*b|a"}) {
    file["pre_tokenizer"] = split_by(expression);
    const std::string said =
        error_of([&] { Tokenizer::parse(file.dump(), "tokenizer here.json").encode(text); });
    expect_said(said, {expression, "4400 bytes", "simplify the expression", "in tokenizer here.json"});
  }
}

// Each attempt is short, or looks far ahead only once, but all of them together take too much.
TEST(Limits, ExpressionsThatLookAtTheRestOfTheTextAgainAndAgainAreRefused) {
  MatchState state;
  const std::string text(300'000, 'a');
  for (const char* expression : {"a++b|a", "(?>a+)b|a", "a(?!a*b)", "a*+b|a"}) {
    state.budget.begin(text.size());
    expect_said(
        error_of([&] { SplitExpression(expression).split(text, state, [](std::string_view, bool) {}); }),
        {expression, "more steps than its size allows"});
  }
}

TEST(Limits, RunsOfAMillionCharactersAreNoTrouble) {
  const std::string qwen =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json file = fixture();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split_by(qwen), {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const Tokenizer tokenizer = Tokenizer::parse(file.dump());
  for (const std::string piece : {" ", "a", "1", "!", "\n", "\u4e00", " a", "'s", "th"}) {
    const std::string text = repeated(piece, 300'000 / piece.size());
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << json(piece);
  }
}

TEST(Limits, LiteralsAreFoundInTimeThatGrowsWithTheText) {
  const Literal literal(std::string(20'000, 'a') + "b");
  size_t pieces = 0;
  literal.split(std::string(300'000, 'a'), [&](std::string_view, bool is_match) {
    EXPECT_FALSE(is_match);
    ++pieces;
  });
  EXPECT_EQ(pieces, 1u);
}

TEST(Limits, AddedTokensAreFoundInTimeThatGrowsWithTheText) {
  const std::string text(300'000, 'a');
  const AddedTokenFinder finder({{.id = 1, .content = std::string(20'000, 'a') + "b"},
                                 {.id = 2, .content = "a"},
                                 {.id = 3, .content = std::string(10'000, 'a') + "ca"}});
  EXPECT_EQ(finder.split(text).size(), text.size());
  // Each of many tokens absorbs white space.
  for (const bool left : {false, true}) {
    const AddedTokenFinder spaces(
        {{.id = 1, .content = " ", .single_word = left, .lstrip = left, .rstrip = !left}});
    EXPECT_LE(spaces.split(std::string(300'000, ' ')).size(), 300'000u);
  }
}

TEST(Limits, TokensAroundATextAreFew) {
  json file = fixture();
  const json token = {{"SpecialToken", {{"id", "z"}, {"type_id", 0}}}};
  json pieces = json::array();
  for (int i = 0; i < 3000; ++i) pieces.push_back(token);
  pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  const json ids = json::array({json::array({1, 2, 3})});
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", pieces},
                            {"pair", json::array()},
                            {"special_tokens", {{"z", {{"id", "z"}, {"ids", ids[0]}, {"tokens", {"z"}}}}}}};
  expect_said(error_of([&] { Tokenizer::parse(file.dump()); }), {"post_processor", "more than 1024 tokens"});
}

// Many steps each add a little text, or double it.
TEST(Limits, TextsDoNotGrowWithoutEnd) {
  json file = fixture();
  json steps = json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}});
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  expect_said(error_of([&] { Tokenizer::parse(file.dump()).encode(" \u00e9"); }),
              {"more than 64 bytes of each byte"});
  steps = json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  file = fixture();
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  expect_said(error_of([&] {
                Tokenizer::parse(file.dump())
                    .decode(std::vector<int64_t>{*Tokenizer::parse(file.dump()).token_to_id("a")});
              }),
              {"more than 64 bytes of each byte"});
  file = fixture();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  expect_said(error_of([&] { Tokenizer::parse(file.dump()).encode("aaa"); }),
              {"more than 64 bytes of each byte"});
  while (steps.size() < 65) steps.push_back(steps[0]);
  file["normalizer"]["normalizers"] = steps;
  expect_said(error_of([&] { Tokenizer::parse(file.dump()); }),
              {"normalizer.normalizers[64]", "more than 64 steps"});
}

TEST(Limits, ListsInListsAreRefused) {
  expect_said(error_of([] { Tokenizer::parse(std::string(1'000'000, '[')); }), {"more than 64 deep"});
}

// A single id far from all others takes only one number per id in between.
TEST(Limits, IdsMayBeFarFromEachOther) {
  json file = fixture();
  file["model"]["vocab"]["zyzzyva"] = 4'194'303;
  file["added_tokens"] = json::array();
  const Tokenizer tokenizer = Tokenizer::parse(file.dump());
  EXPECT_EQ(tokenizer.vocab_size(), 4'194'304);
  EXPECT_EQ(tokenizer.id_to_token(4'194'303), "zyzzyva");
  EXPECT_EQ(tokenizer.id_to_token(4'000'000), std::nullopt);
}

json file_with(const json& model) { return {{"model", model}}; }

std::vector<json> models_of(const std::vector<std::string>& tokens) {
  json ids = json::object(), pieces = json::array();
  for (const std::string& token : tokens) {
    pieces.push_back({token, -1.0 - 0.01 * static_cast<double>(ids.size())});
    ids[token] = ids.size();
  }
  return {{{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces}},
          {{"type", "WordPiece"},
           {"unk_token", tokens[0]},
           {"continuing_subword_prefix", ""},
           {"max_input_chars_per_word", 100'000'000},
           {"vocab", ids}},
          {{"type", "BPE"},
           {"unk_token", tokens[0]},
           {"fuse_unk", true},
           {"vocab", ids},
           {"merges", json::array({{"a", "a"}, {"aa", "aa"}})}}};
}

// A text without blanks is a single word.
TEST(Limits, WordsOfAMillionCharactersAreNoTrouble) {
  for (const json& model : models_of({"<unk>", "a", "aa", "aaaa", "\u4e00"})) {
    const Tokenizer tokenizer = Tokenizer::parse(file_with(model).dump());
    for (const std::string piece : {"a", "\u4e00", "b", "aab", "\u0301"}) {
      const std::string text = repeated(piece, 1'000'000 / piece.size());
      EXPECT_LE(tokenizer.encode(text).size(), text.size()) << model["type"];
      EXPECT_FALSE(tokenizer.encode(text).empty()) << model["type"];
    }
  }
}

// Every position of the text begins a long way into the tree of tokens.
TEST(Limits, LongTokensThatNearlyMatchEverywhereAreRefused) {
  const std::string almost = std::string(60'000, 'a') + "b";
  for (const json& model : models_of({"<unk>", "a", "aa", "aaaa", almost})) {
    if (model["type"] == "BPE") continue;
    const Tokenizer tokenizer = Tokenizer::parse(file_with(model).dump(), "tokenizer here.json");
    const std::string text(70'000, 'a');
    expect_said(error_of([&] { tokenizer.encode(text); }), {"model.vocab", "in tokenizer here.json"});
    EXPECT_FALSE(tokenizer.encode(std::string(1000, 'a')).empty());
  }
}

std::string refusal_of(const json& file) {
  return error_of([&] { Tokenizer::parse(file.dump(), "tokenizer here.json").encode("ab A"); });
}

TEST(Limits, InvalidModelsAreRefusedWithTheNameOfTheField) {
  const std::vector<json> models = models_of({"<unk>", "a", "aa", "aaaa"});
  const auto changed = [](json model, const char* name, const json& value) {
    model[name] = value;
    return refusal_of(file_with(model));
  };
  expect_said(changed(models[0], "unk_id", 4), {"model.unk_id", "4", "in tokenizer here.json"});
  expect_said(changed(models[0], "unk_id", -1), {"model.unk_id"});
  expect_said(changed(models[0], "unk_id", nullptr), {"model.unk_id", "'b'"});
  expect_said(changed(models[0], "vocab", json::array({{"a", "x"}})), {"row 0 of 'model.vocab'"});
  expect_said(changed(models[0], "vocab", json::array({{"a", nullptr}})), {"row 0 of 'model.vocab'"});
  expect_said(changed(models[0], "vocab", json::array({{"a", 1}, {"a", 2}})),
              {"row 1 of 'model.vocab'", "again"});
  expect_said(changed(models[0], "vocab", json::array({{std::string(70'000, 'a'), 1}})), {"70000 bytes"});
  expect_said(changed(models[1], "max_input_chars_per_word", -1), {"model.max_input_chars_per_word"});
  expect_said(changed(models[1], "unk_token", "none"), {"model.unk_token", "none"});
  expect_said(changed(models[1], "continuing_subword_prefix", 3), {"model.continuing_subword_prefix"});
  expect_said(changed(models[1], "type", "Markov"), {"model Markov"});
}

// The first unit of the trie has offset 1: a byte c leads to unit 1 ^ c.
TEST(Limits, InvalidMapsOfCharactersAreRefused) {
  const auto refused = [](const json& map) {
    json file = fixture();
    file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map}};
    return refusal_of(file);
  };
  const std::string name = "normalizer.precompiled_charsmap";
  expect_said(refused(nullptr), {name});
  expect_said(refused("a?"), {name, "base64"});
  expect_said(refused(""), {"normalizer", "0 bytes"});
  expect_said(refused("AAAA"), {"normalizer", "3 bytes"});
  expect_said(refused("/////w=="), {"normalizer", "4294967295 bytes"});
  expect_said(refused("BAAAAAAAAAD/"), {"normalizer", "UTF-8"});
  std::string units(4 * 256, '\0');
  const auto set = [&](size_t at, uint32_t unit) {
    for (size_t i = 0; i < 4; ++i) units[4 * at + i] = static_cast<char>(unit >> 8 * i & 0xff);
  };
  const auto map_of = [&] {
    const std::string bytes = std::string("\0\4\0\0", 4) + units + std::string("x", 2);
    std::string text;
    for (size_t at = 0; at < bytes.size(); at += 3) {
      uint32_t group = 0;
      for (size_t i = 0; i < 3; ++i)
        group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
      for (int shift = 18; shift >= 0; shift -= 6)
        text += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[group >> shift & 63];
    }
    return text;
  };
  set(0, 1 << 10);
  set(1 ^ 'a', 1 << 20 | 1 << 8 | 'a');
  expect_said(refused(map_of()), {"precompiled_charsmap", "refers to unit"});
  set(1 ^ 'a', 1 << 10 | 1 << 8 | 'a');
  set(static_cast<size_t>(1 ^ 'a' ^ 1), 1u << 31 | 77);
  expect_said(refused(map_of()), {"precompiled_charsmap", "byte 77 of"});
  set(static_cast<size_t>(1 ^ 'a' ^ 1), 1u << 31);
  EXPECT_EQ(refused(map_of()), "");
}

}  // namespace
}  // namespace genesis::text
