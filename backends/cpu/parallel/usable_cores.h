// The cores that a process may use. Used by whatever chooses a number of threads.
#pragma once

#include <string>

namespace genesis::cpu {

// How many cores this process may use, at least 1: fewer than the machine has under taskset, and in a container with a quota of the
// processor's time (the control group's cpu.max), which more threads would use up early and then stand still until the next period.
int usable_cores();

// The cores that a quota of the cgroup file system mounted at `root` comes to, rounded up, for a process whose /proc/self/cgroup
// reads `membership`; of nested groups the smallest. 0: there is none.
int quota_cores(const std::string& root, const std::string& membership);

}  // namespace genesis::cpu
