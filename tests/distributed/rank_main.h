// The program of these tests is started in two ways: by a person or meson, and then it starts itself again under mpirun;
// and as one of the ranks, with the name of what to do as its first argument.
#pragma once

#include <string>

namespace genesis::testing {

inline constexpr const char* kTestsOfRanks = "Ranks.*:RanksOf/*";  // as gtest filters

// What to do as a rank: run these tests, whose failures are printed with the rank (argument "tests"), or
// one of the ways to fail in failing_ranks.cpp; with gpu_ ahead, as ranks on GPUs. What it returns is what the process ends with.
int run_as_rank(const std::string& what, int argc, char** argv);
int fail_as_rank(const std::string& how);

}  // namespace genesis::testing
