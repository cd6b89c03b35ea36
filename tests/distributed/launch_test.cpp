// Starts this program under mpirun: the tests of collectives_test.cpp on several ranks, and ranks that fail.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executor/distributed/child_ranks.h"
#include "executor/distributed/local_launch.h"
#include "executor/distributed/session_folder.h"
#include "executor/runtime/device.h"
#include "schema/core/error.h"
#include "tests/distributed/why_no_ranks.h"
#include "tests/tools/process.h"

namespace genesis {
namespace {

using testing::Process;
using testing::why_no_ranks;

std::string self() { return std::filesystem::read_symlink("/proc/self/exe"); }

Process run_ranks(int ranks, const std::string& what) {
  set_mpirun_environment();
  return testing::run_process(mpirun_command(ranks, {self(), "--as-rank=" + what}));
}

Process run_launcher(const std::string& what, const testing::ProcessOptions& options = {}) {
  return testing::run_process({self(), "--as-launcher=" + what}, options);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

// Numbers of ranks that are powers of two and others: one, even, odd, and as many as one host of GPUs has.
INSTANTIATE_TEST_SUITE_P(Ranks, Launched, ::testing::Values(1, 2, 3, 5, 8));

// A failure of the second of three ranks, and the message that the others must print.
struct Failure {
  const char* how;
  const char* expected;  // text on stderr
};

class Failing : public ::testing::TestWithParam<Failure> {
  void SetUp() override {
    if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(Failing, EndsAllRanks) {
  const Process process = run_ranks(3, GetParam().how);
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find(GetParam().expected), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("ended well"), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("Segmentation fault"), std::string::npos) << process.err;
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, Failing,
    ::testing::Values(Failure{"throws", "rank 1 (host "},
                      Failure{"aborts", "out of memory in node 'layers.3.mlp.up_proj'"},
                      Failure{"exits", "Exit code:    3"}, Failure{"is_killed", "rank 1"},
                      Failure{"hangs", "no answer from rank 1 (host "},
                      Failure{"gives_up_receiving", "rank 0 (host "},
                      Failure{"gives_up_sending", "rank 0 (host "},
                      Failure{"differs", "the model file differs between ranks: rank 0 (host "}),
    [](const auto& info) { return std::string(info.param.how); });

TEST(StoppedRanks, AreNamedByOneOfTheOthersBeforeTheyJoin) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const Process process = run_ranks(3, "stops_early");
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  const std::string named = "has been stopped for";
  const size_t at = process.err.find(named);
  ASSERT_NE(at, std::string::npos) << process.err;
  EXPECT_NE(process.err.find("error: rank 1 (host "), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find(named, at + 1), std::string::npos) << process.err;
}

TEST(StoppedRanks, OfVariablesAreFoundToo) {
  const Process process = run_launcher("stops_and_others_look");
  EXPECT_NE(process.err.find("rank 0 says: rank 1 (host here) has been stopped for"), std::string::npos)
      << process.err;
}

TEST(WaitingRanks, AreToldOfByTheFirstRankThatWaits) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const Process process = run_ranks(3, "hangs");
  EXPECT_NE(process.err.find("genesis: rank 0 (host "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("still waits for rank 1 (host "), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("genesis: rank 2 (host "), std::string::npos) << process.err;
}

// Ranks that ignore SIGTERM, and the ways in which they are ended nevertheless. They write their process ids to a
// folder.
class Leftovers : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  testing::ProcessOptions options() const {
    return {.environment = {"GENESIS_TEST_PIDS=" + folder_.string()}};
  }
  testing::ProcessOptions killed_once_started() const {
    testing::ProcessOptions killed = options();
    killed.kill_once = [this] { return count_started() == 2; };
    return killed;
  }
  int count_started() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // Returns the number of ranks that are neither gone nor zombies.
  int count_running() const {
    int running = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::ifstream in("/proc/" + file.path().filename().string() + "/stat");
      std::string pid, name, state;
      running += (in >> pid >> name >> state) && state != "Z" && state != "X";
    }
    return running;
  }
  void expect_nobody_stays() const {
    EXPECT_EQ(count_started(), 2);
    const auto start = std::chrono::steady_clock::now();
    while (count_running() > 0 && seconds_since(start) < testing::kHangs)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(count_running(), 0);
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("genesis_leftovers_" + std::to_string(::getpid()));
};

TEST_F(Leftovers, ChildrenEndWithWhatStartedThem) {
  const Process process = run_launcher("stays", killed_once_started());
  EXPECT_FALSE(process.timed_out) << "its children held its output";
  expect_nobody_stays();
}

TEST_F(Leftovers, AChildThatIsStoppedIsEndedWithTheOthers) {
  const Process process = run_launcher("one_stops", options());
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("rank 1 has been stopped"), std::string::npos) << process.err;
  expect_nobody_stays();
}

TEST_F(Leftovers, RanksOfATestEndWithIt) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  for (const char* what : {"mpirun_stays", "mpirun_one_stops"}) {
    SetUp();
    EXPECT_FALSE(run_launcher(what, killed_once_started()).timed_out);
    expect_nobody_stays();
  }
}

// The folder of a killed process is removed by the next process. The folder of a living process stays.
TEST(SessionFolders, AreRemovedWithTheirProcess) {
  const std::filesystem::path base =
      std::filesystem::temp_directory_path() / ("genesis_folders_" + std::to_string(::getpid()));
  std::filesystem::create_directory(base);
  const auto count = [&] { return std::distance(std::filesystem::directory_iterator(base), {}); };
  if (const pid_t child = ::fork(); child == 0) {
    const SessionFolder folder(base);
    std::ofstream(folder.path() / "file") << "text";
    ::_exit(folder.path().empty());
  } else {
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  EXPECT_EQ(count(), 1);
  {
    const SessionFolder folder(base), other(base);
    EXPECT_NE(folder.path(), other.path());
    EXPECT_EQ(count(), 2);
  }
  EXPECT_EQ(count(), 0);
  std::filesystem::remove_all(base);
  EXPECT_TRUE(SessionFolder(base).path().empty()) << "there is no such place";
  EXPECT_TRUE(SessionFolder("").path().empty()) << "and not the current folder instead";
}

// Ranks as children of this process without MPI, and under mpirun.
class OnGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open_device("cuda:1", 0);
    } catch (const Error& error) {
      GTEST_SKIP() << "two GPUs are needed: " << error.message();
    }
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
    const Process process = run_launcher(how);
    EXPECT_NE(process.code, 0) << how;
    EXPECT_FALSE(process.timed_out) << how << process.err;
  }
}

}  // namespace
}  // namespace genesis
