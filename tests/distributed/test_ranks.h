// Connects the tests of ranks: the link of a launch, once per process, and groups that take host memory wherever the
// ranks compute.
#pragma once

#include <memory>

#include "backends/rank_link.h"
#include "executor/distributed/launch.h"
#include "executor/distributed/world.h"

namespace genesis::testing {

// True if the ranks of this process have GPUs. rank_main.cpp sets it before anything else.
bool& ranks_have_gpus();

std::unique_ptr<RankLink> join_test_ranks(const RankLimits& limits);

// Makes a link whose groups copy host data to the GPU and back. `from` and `to` overlap on the GPU as they do in host
// memory.
std::unique_ptr<RankLink> join_staged_gpu_ranks(const Launch& launch, const RankLimits& limits);

// GPUs of one host run captured exchanges, alone and beside other work, until the second rank stops taking part.
// Throws Error as World::check() does.
void hang_in_peer_memory(World& world);

}  // namespace genesis::testing
