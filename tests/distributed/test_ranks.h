// What the tests of ranks exchange data through: the link that a launch gives, once a process, and groups that take memory
// of the host wherever the ranks compute.
#pragma once

#include <memory>

#include "backends/rank_link.h"
#include "executor/distributed/launch.h"
#include "executor/distributed/world.h"

namespace genesis::testing {

// Whether the ranks of this process have GPUs; set by rank_main.cpp before anything else.
bool& ranks_have_gpus();

std::unique_ptr<RankLink> join_test_ranks(const RankLimits& limits);

// A link whose groups copy what they are given to the GPU and back. As they are in memory, `from` and `to` overlap there too.
std::unique_ptr<RankLink> join_staged_gpu_ranks(const Launch& launch, const RankLimits& limits);

// GPUs of one host run captured exchanges, at once and beside other work, until the second rank comes no more. Throws Error
// as World::check().
void hang_in_peer_memory(World& world);

}  // namespace genesis::testing
