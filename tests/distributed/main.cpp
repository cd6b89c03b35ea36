#include <gtest/gtest.h>

#include <string>

#include "tests/distributed/rank_main.h"

int main(int argc, char** argv) {
  const std::string option = "--as-rank=";
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]).rfind(option, 0) == 0)
      return genesis::testing::run_as_rank(argv[i] + option.size(), argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  // Ranks' own tests have nobody to exchange data with here.
  const std::string filter = ::testing::GTEST_FLAG(filter);
  ::testing::GTEST_FLAG(filter) =
      filter + (filter.find('-') == std::string::npos ? "-" : ":") + genesis::testing::kTestsOfRanks;
  return RUN_ALL_TESTS();
}
