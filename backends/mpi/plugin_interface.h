// What the MPI module offers, by the one name that is looked up in it.
#pragma once

#include "backends/rank_link.h"

namespace genesis::mpi {

struct Plugin {
  const char* version;  // of Genesis, when the module was built: it shares classes with the library
  RankLink* (*join_ranks)(const RankLimits& limits);  // throws Error
};

inline constexpr const char* kPluginName = "genesis_mpi_plugin";  // a function that returns const Plugin*

}  // namespace genesis::mpi
