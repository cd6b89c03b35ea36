// Replaces staged_gpu_ranks.cpp in a build without CUDA.
#include "schema/core/error.h"
#include "tests/distributed/test_ranks.h"

std::unique_ptr<genesis::RankLink> genesis::testing::join_staged_gpu_ranks(const Launch&, const RankLimits&) {
  fail("this build has no CUDA");
}

void genesis::testing::hang_in_peer_memory(World&) { fail("this build has no CUDA"); }
