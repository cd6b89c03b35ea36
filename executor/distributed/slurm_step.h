// Interprets the variables that srun sets for the ranks of a step: where ranks without MPI meet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis {

// Returns the first host of SLURM_STEP_NODELIST, the host of rank 0: "n001-ib" for "n[001-003,007]-ib,login". Throws Error if the
// text is not a list of hosts.
std::string first_host_of(std::string_view hosts);

// Returns the port where the ranks of a step meet. Steps of one job get different ports, and so do jobs with consecutive ids.
int meeting_port(int64_t job, int64_t step);

// Replaces the host in e.g. "n001:20077" by its address: "10.0.0.1:20077" or "[fd00::1]:20077". All ranks must use the same
// address, and rank 0 listens there. Throws Error if the host has no address that other hosts can reach.
std::string resolve_meeting(const std::string& address);

}  // namespace genesis
