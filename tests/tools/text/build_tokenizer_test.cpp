// Tests genesis-build tokenizer.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class BuildTokenizer : public ToolTest {
 protected:
  Words command(const std::string& output, const Words& more = {}, const std::string& tokens = "270") {
    write_text(path("corpus.txt"), "the theme of the thesis is the theory\n");
    return Words{"tokenizer", path("corpus.txt"), "-o", path(output), "--vocab-size", tokens} + more;
  }
};

TEST_F(BuildTokenizer, MakesAFolderThatTokenizeTakes) {
  const auto made = expect_json(run_tool("genesis-build", command("tok", {"--chat", "--json"})));
  EXPECT_EQ(made["tokens"], 270);
  EXPECT_EQ(made["merges"], 270 - 256 - 3);
  EXPECT_EQ(made["bytes"], 38);
  const std::string config = read_text(path("tok/tokenizer_config.json"));
  EXPECT_NE(config.find("chat_template"), std::string::npos);
  const auto ids = expect_json(
      run_tool("genesis-run", {"tokenize", path("tok"), "--text", "<|im_start|>the", "--json"}))["ids"];
  EXPECT_EQ(ids[0], 1);
  EXPECT_LT(ids.size(), 4u);
}

TEST_F(BuildTokenizer, WarnsOfAVocabularyThatTheTextCannotFill) {
  const Process made = run_tool("genesis-build", command("tok.json", {}, "5000"));
  expect_ok(made);
  EXPECT_NE(made.err.find("fewer than --vocab-size 5000"), std::string::npos) << made.err;
  EXPECT_FALSE(fs::exists(path("tokenizer_config.json")));
}

TEST_F(BuildTokenizer, ReplacesOneInAFolderOnlyWhereThatIsAskedFor) {
  fs::create_directory(path("tok"));
  expect_ok(run_tool("genesis-build", command("tok")));
  expect_ok(run_tool("genesis-build", command("new/around/tok")));
  const std::string before = read_text(path("tok/tokenizer.json"));
  expect_error(run_tool("genesis-build", command("tok", {}, "265")),
               {path("tok"), "there already", "--force"});
  EXPECT_EQ(read_text(path("tok/tokenizer.json")), before);
  expect_ok(run_tool("genesis-build", command("tok", {"--force"}, "265")));
  EXPECT_NE(read_text(path("tok/tokenizer.json")), before);
  expect_ok(run_tool("genesis-build", command("tok.json")));
  expect_ok(run_tool("genesis-build", command("tok.json", {}, "265")));
}

TEST_F(BuildTokenizer, ThatDoesNotFitOnTheDiskLeavesNothing) {
  const Process full = run_tool("genesis-build", command("tok", {"--quiet"}), {.largest_file_bytes = 1000});
  expect_error(full, {"tokenizer.json"});
  EXPECT_EQ(files_in(folder()), (std::set<std::string>{"corpus.txt"}));
}

TEST_F(BuildTokenizer, SaysWhatIsWrong) {
  expect_usage_error(run_tool("genesis-build", command("tok.json", {"--chat"})), {"--chat", "folder"});
  expect_usage_error(run_tool("genesis-build", {"tokenizer", path("corpus.txt"), "-o", path("tok")}),
                     {"--vocab-size"});
  expect_error(
      run_tool("genesis-build", {"tokenizer", path("nothing.txt"), "-o", path("tok"), "--vocab-size", "300"}),
      {"nothing.txt", "not there"});
  expect_usage_error(run_tool("genesis-build", command("tok", {"--pattern", "a("})),
                     {"--pattern a(", "split expression"});
  EXPECT_FALSE(fs::exists(path("tok")));
}

}  // namespace
}  // namespace genesis::testing
