// Starts ranks as child processes, one per GPU of this host. They get the environment variables that torchrun would set
// (launch.h).
#pragma once

#include <string>
#include <vector>

namespace genesis {

// Seconds the surviving ranks get to exit on their own after one has failed, before they are terminated.
inline constexpr int kGraceSeconds = 10;

// Starts `command` once per rank and waits for all; see launch_ranks() in local_launch.h.
int run_child_ranks(int ranks, const std::vector<std::string>& command);

}  // namespace genesis
