// Tests names of hosts as Slurm writes them, and addresses where ranks meet.
#include "executor/distributed/slurm_step.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/error_of.h"

namespace genesis {
namespace {

using testing::error_of;

TEST(SlurmStep, FirstHostOfAList) {
  EXPECT_EQ(first_host_of("gpu7"), "gpu7");
  EXPECT_EQ(first_host_of("a.example.org,b.example.org"), "a.example.org");
  EXPECT_EQ(first_host_of("n[001-003,007]-ib"), "n001-ib");
  EXPECT_EQ(first_host_of("n[7,9-12],login"), "n7");
  EXPECT_EQ(first_host_of("rack[2-3]n[04-05],x"), "rack2n04");
  for (const char* wrong : {"", ",a", "n[1", "n[]", "n[a]", "n[-2]", "n[1[2]]", "n]", "a b", "n[1;2]"})
    EXPECT_NE(error_of([&] { first_host_of(wrong); }).find("set MASTER_ADDR"), std::string::npos) << wrong;
}

TEST(SlurmStep, StepsAndNeighboringJobsMeetElsewhere) {
  std::set<int> ports;
  for (int64_t job = 9990; job < 10010; ++job)
    for (int64_t step = 0; step < 50; ++step) ports.insert(meeting_port(job, step));
  EXPECT_EQ(ports.size(), 20u * 50u);
  EXPECT_GE(*ports.begin(), 20000);
  EXPECT_LT(*ports.rbegin(), 30000);
  EXPECT_EQ(meeting_port(4294967291, 4294967290), meeting_port(4294967291, 4294967290));
  EXPECT_LT(meeting_port(4294967291, 4294967290), 30000);
}

TEST(SlurmStep, AnAddressIsOneThatOtherHostsReach) {
  EXPECT_EQ(resolve_meeting("10.0.0.7:20077"), "10.0.0.7:20077");
  EXPECT_EQ(resolve_meeting("fd00::1:20077"), "[fd00::1]:20077");
  EXPECT_EQ(resolve_meeting("[fd00::1]:20077"), "[fd00::1]:20077");
  EXPECT_NE(error_of([] { resolve_meeting("localhost:1"); }).find("an address that no other host reaches"),
            std::string::npos);
  EXPECT_NE(error_of([] { resolve_meeting("nowhere.invalid:1"); }).find("which has no address here"),
            std::string::npos);
}

}  // namespace
}  // namespace genesis
