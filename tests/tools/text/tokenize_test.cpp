// Tests genesis-run tokenize.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const std::string kTokenizer = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json";

using Tokenize = ToolTest;

TEST_F(Tokenize, ThereAndBack) {
  const std::string text = "In the beginning\n<|im_start|>\u4f60";
  write_text(path("text.txt"), text);
  const Process encoded =
      run_tool("genesis-run", {"tokenize", kTokenizer, "--file", path("text.txt"), "--json"});
  EXPECT_FALSE(expect_json(encoded)["ids"].empty());
  fs::create_directory(path("model"));
  fs::copy(kTokenizer, path("model/tokenizer.json"));
  const std::string words = expect_ok(run_tool("genesis-run", {"tokenize", path("model"), "--text", text}));
  for (const std::string& ids : {encoded.out, expect_json(encoded)["ids"].dump(), words}) {
    write_text(path("ids"), ids);
    const Words decode = {"tokenize", kTokenizer, "--decode", "--file", path("ids")};
    EXPECT_EQ(expect_ok(run_tool("genesis-run", decode)), text);
    EXPECT_EQ(expect_json(run_tool("genesis-run", decode + Words{"--json", "--no-special"}))["text"],
              "In the beginning\n\u4f60");
  }
}

TEST_F(Tokenize, GenerateReadsAndWritesByOne) {
  const Words tiny = {"--set", "hidden_size=16",       "--set", "intermediate_size=32",
                      "--set", "num_hidden_layers=1",  "--set", "num_attention_heads=2",
                      "--set", "num_key_value_heads=1"};
  expect_ok(
      run_tool("genesis-build", Words{"qwen2", "-o", path("m.genesis"), "--set", "vocab_size=909"} + tiny));
  const Words generate = {"generate", path("m.genesis"), "--prompt", "In the \u4f60", "--max-tokens",
                          "30",       "--seed",          "4"};
  expect_error(run_tool("genesis-run", generate), {"vocabulary of 909", "--tokenizer"});
  const auto json =
      expect_json(run_tool("genesis-run", generate + Words{"--tokenizer", kTokenizer, "--json"}));
  write_text(path("ids"), json["tokens"].dump());
  EXPECT_EQ(expect_ok(run_tool("genesis-run",
                               {"tokenize", kTokenizer, "--decode", "--file", path("ids"), "--no-special"})),
            json["text"].get<std::string>());
  EXPECT_EQ(expect_ok(run_tool("genesis-run", generate + Words{"--tokenizer", kTokenizer})),
            "In the \u4f60" + json["text"].get<std::string>() + "\n");
  expect_ok(
      run_tool("genesis-build", Words{"qwen2", "-o", path("few.genesis"), "--set", "vocab_size=300"} + tiny));
  expect_error(
      run_tool("genesis-run", {"generate", path("few.genesis"), "--prompt", "a", "--tokenizer", kTokenizer}),
      {"909 tokens", "300"});
}

TEST_F(Tokenize, SpecialTokensAroundATextCanBeLeftOut) {
  const std::string llama = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/llama.json";
  const auto with = expect_json(run_tool("genesis-run", {"tokenize", llama, "--text", "a", "--json"}))["ids"],
             without = expect_json(run_tool(
                 "genesis-run", {"tokenize", llama, "--text", "a", "--json", "--no-special"}))["ids"];
  EXPECT_EQ(with.size(), 2u);
  EXPECT_EQ(without.size(), 1u);
  EXPECT_EQ(with[1], without[0]);
}

TEST_F(Tokenize, SaysWhatIsWrong) {
  write_text(path("tokenizer.json"), R"({"model": {"type": "WordCloud"}})");
  expect_error(run_tool("genesis-run", {"tokenize", path("tokenizer.json"), "--text", "a"}),
               {"not supported: model WordCloud", "in tokenizer", "tokenizer.json"});
  expect_error(run_tool("genesis-run", {"tokenize", path("none.json"), "--text", "a"}), {"none.json"});
  expect_error(run_tool("genesis-run", {"tokenize", kTokenizer, "--file", path("none.txt")}), {"none.txt"});
  expect_error(run_tool("genesis-run", {"tokenize", kTokenizer, "--decode", "--text", "5 x"}),
               {"\"x\" is not an id"});
  expect_error(run_tool("genesis-run", {"tokenize", kTokenizer, "--decode", "--text", "[1.5]"}),
               {"is not an id"});
  expect_error(run_tool("genesis-run", {"tokenize", kTokenizer, "--decode", "--text", "99999"}),
               {"there is no token 99999", "0 to "});
  expect_usage_error(run_tool("genesis-run", {"tokenize", kTokenizer}),
                     {"one of --file TEXT and --text STRING"});
  expect_usage_error(run_tool("genesis-run", {"tokenize", kTokenizer, "--text", "a", "--file", "b"}),
                     {"one of --file TEXT"});
}

}  // namespace
}  // namespace genesis::testing
