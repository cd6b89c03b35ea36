// Tests that tokenizers trained on text equal those of the library `tokenizers` (training.json, made by
// make_training.py) with any number of threads, and that both ways of loading them restore what was learned.
#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/corpus/text_files.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/training/tokenizer_config.h"
#include "models/tokenizer/training/train_tokenizer.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TokenizerTraining : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string refusal(const TokenizerOptions& options) const {
    try {
      train_tokenizer({write("text", "some text")}, options);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("training" + std::to_string(::getpid()));
};

TokenizerOptions options_of(const json& one) {
  return {.bpe = {.vocab_size = one["vocab_size"],
                  .min_frequency = one["min_frequency"],
                  .special_tokens = one["special"].get<std::vector<std::string>>()},
          .pattern = one["pattern"]};
}

TEST_F(TokenizerTraining, LearnsWhatTokenizersLearns) {
  const json cases =
      parse_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/training.json"));
  ASSERT_GT(cases.size(), 30u);
  for (const json& one : cases) {
    std::vector<fs::path> files;
    for (const json& text : one["texts"])
      files.push_back(write(std::to_string(files.size()), text.get<std::string>()));
    const json made = parse_json_text(train_tokenizer(files, options_of(one)).json);
    const std::string name = one["name"].get<std::string>() + ", " + one["pattern"].get<std::string>();
    EXPECT_EQ(made["model"]["merges"], one["expected"]["merges"]) << name;
    EXPECT_EQ(made["added_tokens"], one["expected"]["added"]) << name;
    EXPECT_EQ(made["model"]["vocab"].size(), one["expected"]["size"]) << name;
    int id = one["expected"]["first"];
    for (const json& token : one["expected"]["tokens"])
      EXPECT_EQ(made["model"]["vocab"].value(token.get<std::string>(), -1), id++) << name;
  }
}

// Returns text of many words, so that threads have work to share.
std::string long_text() {
  std::string text;
  for (uint32_t i = 0, state = 7; text.size() < (3u << 20); ++i) {
    state = state * 1664525u + 1013904223u;
    text += " w" + std::to_string(state >> 20) + (i % 11 == 0 ? "\n" : "");
  }
  return text;
}

TEST_F(TokenizerTraining, IsTheSameByAnyNumberOfThreads) {
  const fs::path file = write("long", long_text());
  const TokenizerOptions options = {.bpe = {.vocab_size = 800}};
  const std::string all = train_tokenizer({file}, options).json;
  std::string one;
  tbb::task_arena(1).execute([&] { one = train_tokenizer({file}, options).json; });
  EXPECT_EQ(all, one);
}

TEST_F(TokenizerTraining, GivesATokenizerThatLoads) {
  const auto trained =
      train_tokenizer({write("text", "the theme of the thesis\n")},
                      {.bpe = {.vocab_size = 270, .special_tokens = {"<|endoftext|>"}}, .pattern = "qwen2"});
  const Tokenizer tokenizer = Tokenizer::parse(trained.json);
  EXPECT_EQ(tokenizer.vocab_size(), trained.tokens);
  EXPECT_EQ(tokenizer.token_to_id("<|endoftext|>"), 0);
  const std::vector<int64_t> ids = tokenizer.encode(" the<|endoftext|>\u4f60 cafe\u0301");
  EXPECT_EQ(ids.size(), 1u + 1 + 3 + 6);
  EXPECT_EQ(tokenizer.decode(ids), " the\u4f60 caf\u00e9");
}

TEST_F(TokenizerTraining, ReadsBytesThatAreNotUtf8) {
  const TokenizerOptions options = {.bpe = {.vocab_size = 300}};
  EXPECT_EQ(train_tokenizer({write("a",
                                   "ab\xff\xe4\xbd"
                                   "cd ab\n")},
                            options)
                .json,
            train_tokenizer({write("b",
                                   "ab\ufffd\ufffd"
                                   "cd ab\n")},
                            options)
                .json);
}

TEST_F(TokenizerTraining, RefusesWhatCannotBeLearnt) {
  EXPECT_NE(refusal({.bpe = {.vocab_size = 255}}).find("256 bytes and special tokens"), std::string::npos);
  EXPECT_NE(refusal({.bpe = {.vocab_size = 256, .special_tokens = {"<a>"}}}).find("257"), std::string::npos);
  EXPECT_NE(refusal({.bpe = {.vocab_size = 300, .special_tokens = {"a", "a"}}}).find("twice"),
            std::string::npos);
  EXPECT_NE(refusal({.bpe = {.vocab_size = 300, .special_tokens = {""}}}).find("empty"), std::string::npos);
  EXPECT_NE(refusal({.bpe = {.vocab_size = 300, .special_tokens = {"\xff"}}}).find("UTF-8"),
            std::string::npos);
  EXPECT_NE(refusal({.bpe = {.vocab_size = 300}, .pattern = "(?<=a)b"}).find("(?<="), std::string::npos);
}

TEST(ChatTemplate, StandsBesideATokenizerThatHasItsTokens) {
  const auto config = parse_json_text(tokenizer_config_json({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  EXPECT_TRUE(config["chat_template"].is_string());
  const auto plain = parse_json_text(tokenizer_config_json({"<|endoftext|>"}));
  EXPECT_EQ(plain["eos_token"], "<|endoftext|>");
  EXPECT_FALSE(plain.contains("chat_template"));
}

std::vector<std::string_view> cut(std::string_view text, size_t bytes) {
  std::vector<std::string_view> parts;
  for (const corpus::Chunk& chunk : corpus::chunks_of_lines("x.txt", text, bytes))
    parts.push_back(chunk.text());
  return parts;
}

TEST_F(TokenizerTraining, TextIsCutBehindLineFeeds) {
  const std::string text = "one\ntwo\n\nthree";
  EXPECT_EQ(cut(text, 5), (std::vector<std::string_view>{"one\ntwo\n", "\nthree"}));
  EXPECT_EQ(cut(text, 4), (std::vector<std::string_view>{"one\n", "two\n", "\nthree"}));
  EXPECT_TRUE(cut("", 4).empty());
}

TEST_F(TokenizerTraining, LearnsFromTheTextsOfJsonLines) {
  const TokenizerOptions options = {.bpe = {.vocab_size = 262}};
  EXPECT_EQ(train_tokenizer(
                {write("a.jsonl", "{\"text\": \"the thesis\", \"id\": 1}\n\n{\"text\":\"the\\n\"}")}, options)
                .json,
            train_tokenizer({write("a.txt", "the thesis"), write("b.txt", "the\n")}, options).json);
  const auto bad = write("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n");
  try {
    train_tokenizer({bad}, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("bad.jsonl:2: "), std::string::npos) << error.message();
  }
}

TEST_F(TokenizerTraining, FoldersStandForTheirTextFiles) {
  fs::create_directories(folder_ / "sub");
  const auto a = write("a.txt", "a"), b = write("sub/b.jsonl", "{}");
  write("c.bin", "c");
  EXPECT_EQ(corpus::text_files({folder_.string()}), (std::vector<fs::path>{a, b}));
  EXPECT_EQ(corpus::text_files({(folder_ / "c.bin").string()}).size(), 1u);
  EXPECT_THROW(corpus::text_files({(folder_ / "nowhere").string()}), Error);
  fs::create_directories(folder_ / "nothing");
  EXPECT_THROW(corpus::text_files({(folder_ / "nothing").string()}), Error);
}

}  // namespace
}  // namespace genesis::text
