// MPI between CPU ranks. The code that calls MPI is a separate module (plugin/), opened at run time, so that programs start
// without an installed MPI.
#pragma once

#include <filesystem>
#include <memory>

#include "backends/rank_link.h"

namespace genesis::mpi {

// Returns an empty text if this build has the module and its MPI library can be opened; else what is missing, and the remedy.
std::string why_missing();

// Returns the module that is preloaded into mpirun so that it only listens on the loopback interface (loopback/). Throws Error if
// it is missing.
std::filesystem::path loopback_module();

// Joins the ranks that mpirun or srun started; may be called once per process. Throws Error if MPI is missing or does not start.
std::unique_ptr<RankLink> join_ranks(const RankLimits& limits);

}  // namespace genesis::mpi
