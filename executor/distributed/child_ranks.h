// Ranks as children of this process, one a GPU of this host. They learn who they are as torchrun would tell them (launch.h).
#pragma once

#include <string>
#include <vector>

namespace genesis {

// That other ranks have to end by themselves when one has failed.
inline constexpr int kGraceSeconds = 10;

// Starts `command` once a rank and waits for all; see launch_ranks in local_launch.h.
int run_child_ranks(int ranks, const std::vector<std::string>& command);

}  // namespace genesis
