#include "tests/distributed/rank_main.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "executor/distributed/child_ranks.h"
#include "executor/distributed/launch.h"
#include "executor/distributed/local_launch.h"
#include "tests/distributed/test_ranks.h"
#include "tests/tools/process.h"

namespace genesis::testing {
namespace {

// Reports only failures, with the rank. The first rank reports as usual.
class OtherRank : public ::testing::EmptyTestEventListener {
 public:
  explicit OtherRank(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed())
      std::cerr << "rank " << rank_ << ": " << result.file_name() << ":" << result.line_number() << ": "
                << result.message() << "\n";
  }

 private:
  int rank_;
};

}  // namespace

int run_as_rank(const std::string& what, int argc, char** argv) {
  const std::string on_gpus = "gpu_";
  ranks_have_gpus() = what.rfind(on_gpus, 0) == 0;
  const std::string task = ranks_have_gpus() ? what.substr(on_gpus.size()) : what;
  if (task != "tests") return fail_as_rank(task);
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::GTEST_FLAG(filter) = kTestsOfRanks;
  const int rank = find_launch().rank;
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OtherRank(rank));
  }
  return RUN_ALL_TESTS();
}

int run_as_launcher(const std::string& what) {
  const std::string by_mpirun = "mpirun_", self = std::filesystem::read_symlink("/proc/self/exe");
  if (what.rfind(by_mpirun, 0) != 0) return run_child_ranks(2, {self, "--as-rank=" + what});
  set_mpirun_environment();
  return run_process(mpirun_command(2, {self, "--as-rank=" + what.substr(by_mpirun.size())})).code;
}

}  // namespace genesis::testing
