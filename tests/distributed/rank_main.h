// The program of these tests is started in three ways: by a person or meson, when it starts itself again under
// mpirun; as one of the ranks, with the name of its task as the first argument; and as a launcher of ranks, to be
// watched or killed.
#pragma once

#include <string>

namespace genesis::testing {

inline constexpr const char* kTestsOfRanks = "Ranks.*:RanksOf/*";  // gtest filters

// Runs a task as a rank: these tests, whose failures are printed with the rank (argument "tests"), or a failure of
// failing_ranks.cpp; with the prefix gpu_ as ranks on GPUs. Returns the exit code of the process.
int run_as_rank(const std::string& what, int argc, char** argv);
int fail_as_rank(const std::string& how);
// Starts two ranks with the task `what` as children of this process; with the prefix mpirun_ by mpirun, as
// run_process() starts it.
int run_as_launcher(const std::string& what);

}  // namespace genesis::testing
