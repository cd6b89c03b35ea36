// Tests tools that are started with closed standard input, output or error: no file takes their place.
#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class ClosedStreams : public ToolTest {
 protected:
  // Runs in a shell, with `closed` after the words: "<&- >&-".
  Process run(const std::string& tool, const Words& words, const std::string& closed) const {
    std::string command = tool_path(tool);
    for (const std::string& word : words) command += " '" + word + "'";
    return run_process({"sh", "-c", command + " " + closed});
  }
};

TEST_F(ClosedStreams, AnInputIsAtItsEnd) {
  const Process chat = run("genesis-run", {"chat", tiny("qwen2.genesis"), "--max-tokens", "3"}, "<&-");
  EXPECT_EQ(chat.out, "") << "the model's bytes were read as messages";
  const Process prompts = run("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompts", "-"}, "<&-");
  EXPECT_EQ(prompts.out, "") << prompts.err;
}

TEST_F(ClosedStreams, AnOutputIsAnErrorAsAFullDiskIs) {
  for (const char* tool : {"genesis-build", "genesis-opt"}) {
    const Words list = {std::string(tool) == "genesis-build" ? "--list" : "--list-passes"};
    for (const char* closed : {">&-", "<&- >&-", ">/dev/full"})
      expect_error(run(tool, list, closed), {"output could not be written"});
  }
  EXPECT_EQ(run("genesis-run", {"info", tiny("mlp.genesis")}, ">&- 2>&-").code, 1);
  EXPECT_EQ(run("genesis-run", {"info", tiny("mlp.genesis")}, "<&- 2>&-").code, 0);
}

TEST_F(ClosedStreams, NoMessageLandsInAFile) {
  Words words = train_words("qwen2", 3, {"--metrics", path("m.jsonl"), "-o", path("m.genesis")});
  std::erase(words, "--quiet");
  run("genesis-run", words, "<&- >&- 2>&-");
  int rows = 0;
  std::istringstream metrics(read_text(path("m.jsonl")));
  for (std::string line; std::getline(metrics, line); ++rows)
    EXPECT_TRUE(try_parse_json_text(line).is_object()) << line;
  EXPECT_EQ(rows, 3);
  expect_ok(run_tool("genesis-run", {"info", path("m.genesis"), "--verify"}));
}

}  // namespace
}  // namespace genesis::testing
