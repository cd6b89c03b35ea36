// MPI between CPU ranks. What calls MPI is a module of its own (plugin/), opened at run time, so that programs start where
// MPI is not installed.
#pragma once

#include <filesystem>
#include <memory>

#include "backends/rank_link.h"

namespace genesis::mpi {

// Empty where this build has the module and its MPI library can be opened; else what is missing, and the remedy.
std::string why_missing();

// The module that mpirun is started with so that it listens on the loopback interface alone (loopback/). Throws Error
// where it is not there.
std::filesystem::path loopback_module();

// Joins the ranks that mpirun or srun started, once a process. Throws Error where MPI is missing or does not start.
std::unique_ptr<RankLink> join_ranks(const RankLimits& limits);

}  // namespace genesis::mpi
