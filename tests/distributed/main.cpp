#include <gtest/gtest.h>

#include <string>

#include "tests/distributed/rank_main.h"

int main(int argc, char** argv) {
  const std::string as_rank = "--as-rank=", as_launcher = "--as-launcher=";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option.rfind(as_rank, 0) == 0)
      return genesis::testing::run_as_rank(option.substr(as_rank.size()), argc, argv);
    if (option.rfind(as_launcher, 0) == 0)
      return genesis::testing::run_as_launcher(option.substr(as_launcher.size()));
  }
  ::testing::InitGoogleTest(&argc, argv);
  // Excludes the tests of ranks, since this process has no other ranks.
  const std::string filter = ::testing::GTEST_FLAG(filter);
  ::testing::GTEST_FLAG(filter) =
      filter + (filter.find('-') == std::string::npos ? "-" : ":") + genesis::testing::kTestsOfRanks;
  return RUN_ALL_TESTS();
}
