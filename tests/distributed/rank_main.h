// The program of these tests is started in three ways: by a person or meson, and then it starts itself again under mpirun;
// as one of the ranks, with the name of what to do as its first argument; and as what starts ranks, to be watched or killed.
#pragma once

#include <string>

namespace genesis::testing {

inline constexpr const char* kTestsOfRanks = "Ranks.*:RanksOf/*";  // as gtest filters

// What to do as a rank: run these tests, whose failures are printed with the rank (argument "tests"), or
// one of the ways to fail in failing_ranks.cpp; with gpu_ ahead, as ranks on GPUs. What it returns is what the process ends with.
int run_as_rank(const std::string& what, int argc, char** argv);
int fail_as_rank(const std::string& how);
// Two ranks that do `what`, as children of this process; with mpirun_ ahead, by mpirun, as run_process() starts it.
int run_as_launcher(const std::string& what);

}  // namespace genesis::testing
