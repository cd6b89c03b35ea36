// Tests the file in which tuning keeps its results: lines of other processes stay, and damaged lines are ignored.
// Needs no GPU.
#include "backends/cuda/gemm/lt/tuning_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backends/cuda/gemm/lt/autotune.h"

namespace genesis::cuda {
namespace {

class TuningFileTest : public ::testing::Test {
 protected:
  TuningFileTest() { std::filesystem::create_directories(folder_); }
  ~TuningFileTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ("tuning_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::path path_ = folder_ / "products.txt";
};

TEST_F(TuningFileTest, WhatIsAddedIsFoundByTheNextProcess) {
  TuningFile(path_).add("a 1x2", "7 8 9");
  EXPECT_EQ(TuningFile(path_).find("a 1x2"), "7 8 9");
  EXPECT_EQ(TuningFile(path_).find("a 1x3"), std::nullopt);
}

TEST_F(TuningFileTest, TwoWritersKeepEachOthersLines) {
  TuningFile one(path_), other(path_);
  one.add("a", "1");
  other.add("b", "2");
  const TuningFile read(path_);
  EXPECT_EQ(read.find("a"), "1");
  EXPECT_EQ(read.find("b"), "2");
}

TEST_F(TuningFileTest, DamagedLinesAreIgnoredAndReplaced) {
  TuningFile(path_).add("a", "1");
  std::string text;
  {
    std::ifstream in(path_);
    std::getline(in, text);
  }
  text.back() = '2';  // the value no longer fits the checksum
  std::ofstream(path_) << text << "\nnonsense\n\t\t\n" << std::string(100, '\0');
  TuningFile file(path_);
  EXPECT_EQ(file.find("a"), std::nullopt);
  file.add("a", "3");
  EXPECT_EQ(TuningFile(path_).find("a"), "3");
}

TEST_F(TuningFileTest, WithoutAPlaceNothingIsKept) {
  TuningFile file(std::nullopt);
  file.add("a", "1");
  EXPECT_EQ(file.find("a"), "1");
  TuningFile nowhere(folder_ / "missing" / "products.txt");
  nowhere.add("a", "1");
  EXPECT_EQ(nowhere.find("a"), "1");
}

TEST(LtAlgorithmText, ComesBackAsItWas) {
  LtAlgorithm algorithm;
  algorithm.workspace = 123456;
  for (size_t i = 0; i < 8; ++i) algorithm.algo.data[i] = ~uint64_t{0} >> (i * 7);
  const auto back = algorithm_from_text(to_text(algorithm));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->workspace, algorithm.workspace);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(back->algo.data[i], algorithm.algo.data[i]);
}

TEST(LtAlgorithmText, AnythingElseIsRefused) {
  for (const char* text :
       {"", "1", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9 a", "1 2 3 4 5 6 7 8 x", "1  2 3 4 5 6 7 8 9"})
    EXPECT_EQ(algorithm_from_text(text), std::nullopt) << text;
}

TEST(TuningKey, TellsProblemsApart) {
  GemmProblem problem;
  problem.m = 3;
  problem.n = 4;
  problem.k = 5;
  GemmProblem accumulating = problem, transposed = problem, biased = problem;
  accumulating.accumulate = true;
  transposed.transpose_b = true;
  biased.has_bias = true;
  const auto key = tuning_key(problem);
  EXPECT_EQ(key, tuning_key(GemmProblem(problem)));
  EXPECT_NE(key, tuning_key(accumulating));
  EXPECT_NE(key, tuning_key(transposed));
  EXPECT_NE(key, tuning_key(biased));
}

}  // namespace
}  // namespace genesis::cuda
