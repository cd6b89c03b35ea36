// Training on several ranks that the tool starts by itself, and a checkpoint that goes on with another number of them.
#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/local_launch.h"
#include "schema/core/error.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class SharingRanks : public ToolTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    if (const std::string why = mpi::why_missing(); !why.empty()) GTEST_SKIP() << why;
    try {
      mpirun_command(2, {});
    } catch (const Error& error) {
      GTEST_SKIP() << error.message();
    }
  }
  Process train(const std::string& mesh, const std::string& zero, int steps, const Words& more) const {
    return run_tool("genesis-run", train_words("qwen2", steps, more + Words{"--mesh", mesh, "--zero", zero}));
  }
};

TEST_F(SharingRanks, GoOnWithOtherNumbersOfThem) {
  const Words keep = {"--checkpoint", path("run")};
  expect_ok(train("data=2", "1", 3, keep));
  EXPECT_EQ(files_in(folder() / "run"), std::set<std::string>{"step-000000003.genesis"});
  expect_ok(train("data=4", "1", 6, keep + Words{"--checkpoint-every", "2", "--resume", "-o", path("shared.genesis")}));
  fs::remove(folder() / "run" / "step-000000004.genesis");
  fs::remove(folder() / "run" / "step-000000006.genesis");
  expect_ok(train("data=2", "1", 3, {"-o", path("three.genesis")}));
  expect_ok(train("data=2", "0", 3, {"-o", path("whole.genesis")}));
  EXPECT_EQ(read_text(path("three.genesis")), read_text(path("whole.genesis")));
}

}  // namespace
}  // namespace genesis::testing
