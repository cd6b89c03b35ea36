// Tests that a file kept between processes is returned completely or not at all.
#include "backends/cuda/runtime/kept_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace genesis::cuda {
namespace {

namespace fs = std::filesystem;

class KeptFile : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const fs::path path_ = fs::temp_directory_path() / ("genesis_kept_" + std::to_string(getpid()));
  const std::string bytes_ = std::string("some\0code\n", 10);
};

TEST_F(KeptFile, ComesBackAsItWas) {
  EXPECT_FALSE(read_kept(path_));
  keep(path_, bytes_);
  EXPECT_EQ(read_kept(path_), bytes_);
  keep(path_, "other");
  EXPECT_EQ(read_kept(path_), "other");
}

TEST_F(KeptFile, AnyDamageMakesItAbsent) {
  keep(path_, bytes_);
  const std::string whole = text();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    write(flipped);
    EXPECT_FALSE(read_kept(path_)) << "byte " << i;
    write(whole.substr(0, i));
    EXPECT_FALSE(read_kept(path_)) << "cut to " << i;
  }
  write(whole + "x");
  EXPECT_FALSE(read_kept(path_));
  write(whole);
  EXPECT_EQ(read_kept(path_), bytes_);
}

// A later process gets what the first one kept; a damaged file counts as absent.
TEST_F(KeptFile, TheFirstToKeepCounts) {
  const fs::path folder = path_.string() + ".d", path = folder / "plan";
  fs::create_directories(folder);
  EXPECT_EQ(keep_first(path, bytes_), bytes_);
  EXPECT_EQ(keep_first(path, "other"), bytes_);
  std::ofstream(path, std::ios::binary) << "damaged";
  EXPECT_EQ(keep_first(path, "other"), "other");
  EXPECT_EQ(read_kept(path), "other");
  EXPECT_EQ(keep_first(path, bytes_, "another"), "other");
  EXPECT_EQ(keep_first(path, bytes_, "other"), bytes_) << "what cannot be used is replaced";
  EXPECT_EQ(read_kept(path), bytes_);
  EXPECT_EQ(keep_first("/no/such/folder/file", bytes_), bytes_);
  fs::remove_all(folder);
}

TEST_F(KeptFile, APlaceThatCannotBeWrittenIsNoError) {
  EXPECT_NO_THROW(keep("/no/such/folder/file", bytes_));
  EXPECT_FALSE(read_kept("/no/such/folder/file"));
}

}  // namespace
}  // namespace genesis::cuda
