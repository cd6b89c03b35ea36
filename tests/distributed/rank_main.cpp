#include "tests/distributed/rank_main.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "executor/distributed/launch.h"
#include "tests/distributed/test_ranks.h"

namespace genesis::testing {
namespace {

// The first rank speaks as always; the others say only what failed.
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

}  // namespace genesis::testing
