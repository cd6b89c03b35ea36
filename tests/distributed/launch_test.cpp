// Starts this program under mpirun: the tests of collectives_test.cpp on several ranks, and ranks that fail.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/child_ranks.h"
#include "executor/distributed/local_launch.h"
#include "executor/runtime/device.h"
#include "schema/core/error.h"
#include "tests/tools/process.h"

namespace genesis {
namespace {

using testing::Process;

// Why ranks cannot be started here; empty when they can.
std::string why_no_ranks() {
  if (const std::string why = mpi::why_missing(); !why.empty()) return why;
  try {
    mpirun_command(2, {});
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

std::string self() { return std::filesystem::read_symlink("/proc/self/exe"); }

Process run_ranks(int ranks, const std::string& what) {
  set_mpirun_environment();
  return testing::run_process(mpirun_command(ranks, {self(), "--as-rank=" + what}));
}

class Launched : public ::testing::TestWithParam<int> {
  void SetUp() override {
    if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(Launched, RanksExchangeData) {
  const Process process = run_ranks(GetParam(), "tests");
  EXPECT_EQ(process.code, 0) << process.out << process.err;
  EXPECT_NE(process.out.find("PASSED"), std::string::npos) << process.out << process.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Launched, ::testing::Values(1, 2, 3, 4, 8));

// One way in which the second of three ranks fails, and what others must say.
struct Failure {
  const char* how;
  const char* expected;  // on stderr
};

class Failing : public ::testing::TestWithParam<Failure> {
  void SetUp() override {
    if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(Failing, EndsAllRanks) {
  const auto start = std::chrono::steady_clock::now();
  const Process process = run_ranks(3, GetParam().how);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_LT(seconds, 30);
  EXPECT_NE(process.err.find(GetParam().expected), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("ended well"), std::string::npos) << process.err;
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, Failing,
    ::testing::Values(Failure{"throws", "rank 1 (host "},
                      Failure{"aborts", "out of memory in node 'layers.3.mlp.up_proj'"},
                      Failure{"exits", "Exit code:    3"}, Failure{"is_killed", "rank 1"},
                      Failure{"hangs", "no answer from rank 1 (host "},
                      Failure{"differs", "the model file differs between ranks: rank 0 (host "}),
    [](const auto& info) { return std::string(info.param.how); });

// As children of this process, without MPI, and under mpirun.
class OnGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open_device("cuda:1", 0);
    } catch (const Error& error) {
      GTEST_SKIP() << "two GPUs are needed: " << error.message();
    }
  }
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

TEST_F(OnGpus, ChildrenExchangeData) { EXPECT_EQ(run_child_ranks(2, {self(), "--as-rank=gpu_tests"}), 0); }

TEST_F(OnGpus, RanksOfMpirunExchangeData) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const Process process = run_ranks(2, "gpu_tests");
  EXPECT_EQ(process.code, 0) << process.out << process.err;
}

TEST_F(OnGpus, AChildThatFailsEndsTheOthers) {
  for (const char* how :
       {"gpu_throws", "gpu_is_killed", "gpu_exits", "gpu_hangs", "gpu_hangs_in_peer_memory"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(run_child_ranks(2, {self(), std::string("--as-rank=") + how}), 0) << how;
    EXPECT_LT(seconds_since(start), 40) << how;
  }
}

}  // namespace
}  // namespace genesis
