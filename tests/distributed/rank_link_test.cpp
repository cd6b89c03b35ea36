// Tests facts that links derive from the data of all ranks.
#include "backends/rank_link.h"

#include <gtest/gtest.h>

#include <vector>

namespace genesis {
namespace {

// data=2,tensor=2 on two hosts: ranks along tensor share a host, those along data do not.
TEST(RankLink, AGroupMayBeOnOneHostOfARunOnSeveral) {
  const Mesh mesh = Mesh::parse("data=2,tensor=2");
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(are_on_one_host(mesh.group(rank, "tensor"), hosts)) << rank;
    EXPECT_FALSE(are_on_one_host(mesh.group(rank, "data"), hosts)) << rank;
  }
  EXPECT_TRUE(are_on_one_host(std::vector<int64_t>{3}, hosts));
}

TEST(RankLink, RanksOnOneDeviceAreNamed) {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  EXPECT_EQ(who_share_a_device(std::vector<std::string>{"GPU-1", "GPU-2", "GPU-3", "GPU-4"}, hosts), "");
  EXPECT_EQ(who_share_a_device(std::vector<std::string>{"", "", "", ""}, hosts), "");
  EXPECT_EQ(who_share_a_device(std::vector<std::string>{"GPU-1", "GPU-2", "GPU-3", "GPU-3"}, hosts)
                .find("rank 2 (host b) and rank 3 (host b) have the same GPU, GPU-3, and"),
            0u);
}

}  // namespace
}  // namespace genesis
