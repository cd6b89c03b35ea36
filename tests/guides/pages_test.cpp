// Tests that the guides docs/adding-*.md still fit the tree. Their code is compiled into this program, with its own
// tests.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace {

TEST(Guides, FitTheTree) {
  std::ifstream in(GENESIS_GUIDE_TREE "/wrong.txt");
  ASSERT_TRUE(in) << "tests/guides/extract.py did not run";
  std::ostringstream wrong;
  wrong << in.rdbuf();
  EXPECT_EQ(wrong.str(), "");
}

}  // namespace
