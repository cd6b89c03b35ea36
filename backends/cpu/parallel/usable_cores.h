// Determines the number of cores that this process may use, from which the number of threads is chosen.
#pragma once

#include <string>

namespace genesis::cpu {

// Returns the number of cores this process may use, at least 1. It is smaller than the machine's under taskset, and in a
// container with a CPU quota (the control group's cpu.max): with more threads than the quota, all of them would use it up early
// and then stall until the next period.
int usable_cores();

// Returns the CPU quota as a number of cores, rounded up, for a process whose /proc/self/cgroup contains `membership`, with the
// cgroup file system mounted at `root`. Of nested groups the smallest quota counts. 0 = no quota.
int quota_cores(const std::string& root, const std::string& membership);

}  // namespace genesis::cpu
