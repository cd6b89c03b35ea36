// Tests the number of cores available for threads, also under a quota of CPU time.
#include "backends/cpu/parallel/usable_cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace genesis::cpu {
namespace {

namespace fs = std::filesystem;

class Quota : public ::testing::Test {
 protected:
  Quota() { fs::create_directories(root_); }
  ~Quota() override { fs::remove_all(root_); }
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  int cores(const std::string& membership) const { return quota_cores(root_, membership); }

  const fs::path root_ = fs::temp_directory_path() / ("genesis_quota_" + std::to_string(::getpid()));
};

TEST_F(Quota, IsTheSmallestOfTheGroupsAroundAProcess) {
  EXPECT_EQ(cores("0::/\n"), 0);
  write("cpu.max", "max 100000\n");
  write("pod/cpu.max", "350000 100000\n");
  write("pod/box/cpu.max", "max 100000\n");
  EXPECT_EQ(cores("0::/\n"), 0);
  EXPECT_EQ(cores("0::/pod/box\n"), 4) << "3.5 cores keep four threads busy";
  write("pod/box/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores("0::/pod/box\n"), 1);
  EXPECT_EQ(cores("0::/pod\n"), 4);
  EXPECT_EQ(cores("0::/somewhere/of/the/host\n"), 0);
}

TEST_F(Quota, OfVersionOneIsReadToo) {
  write("cpu,cpuacct/box/cpu.cfs_quota_us", "200000\n");
  write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores("7:memory:/box\n4:cpu,cpuacct:/box\n0::/\n"), 2);
  EXPECT_EQ(cores("4:cpu,cpuacct:/\n"), 0);
}

TEST_F(Quota, ThatIsNoNumberIsNone) {
  for (const char* text : {"", "max", "100000", "-5 100000", "1 0", "x y", "nan 100000"}) {
    write("cpu.max", text);
    EXPECT_EQ(cores("0::/\n"), 0) << text;
  }
  EXPECT_EQ(cores(""), 0);
  EXPECT_EQ(cores("no colons\n:\n"), 0);
}

TEST(UsableCores, AreAtLeastOne) { EXPECT_GE(usable_cores(), 1); }

}  // namespace
}  // namespace genesis::cpu
