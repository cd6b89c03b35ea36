// Tests a scheduler's signal to a run that started its own ranks.
#include <csignal>

#include "tests/distributed/why_no_ranks.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class StoppedRanks : public ToolTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(StoppedRanks, KeepTheirWorkAfterSigusr1) {
  Words words =
      train_words("qwen2", 1000000, {"--mesh", "data=2", "--device", "cpu", "--checkpoint", path("run")});
  std::erase(words, "--quiet");
  const Process process =
      run_tool("genesis-run", words, {.kill_once_it_says = "/1000000  loss", .signal = SIGUSR1});
  EXPECT_EQ(process.code, 128 + SIGUSR1) << process.err;
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find("interrupted at step "), std::string::npos) << process.err;
  expect_ok(run_tool("genesis-run", {"generate", path("run"), "--prompt", "a", "--max-tokens", "1"}));
}

}  // namespace
}  // namespace genesis::testing
