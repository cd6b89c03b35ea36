// What srun tells the ranks of a step about its hosts, and where ranks without MPI meet there. Used by launch.cpp, and by
// world.cpp once it is known that there is no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis {

// The first of SLURM_STEP_NODELIST, where rank 0 is: "n001-ib" of "n[001-003,007]-ib,login". Throws Error for what is no such list.
std::string first_host_of(std::string_view hosts);

// A port that steps of one job do not share, nor jobs whose ids follow one another: all ranks come to the same one.
int meeting_port(int64_t job, int64_t step);

// "n001:20077" with the host's address, as "10.0.0.1:20077" or "[fd00::1]:20077": all ranks must mean the same one, and rank 0
// listens there. Throws Error where the host has no address, or only one that other hosts do not reach.
std::string resolve_meeting(const std::string& address);

}  // namespace genesis
