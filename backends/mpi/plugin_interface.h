// The interface of the MPI module, found through one symbol.
#pragma once

#include "backends/rank_link.h"

namespace genesis::mpi {

struct Plugin {
  const char* version;  // must equal Genesis' own, since the module shares classes with it
  RankLink* (*join_ranks)(const RankLimits& limits);  // throws Error
};

inline constexpr const char* kPluginName = "genesis_mpi_plugin";  // a function that returns const Plugin*

}  // namespace genesis::mpi
