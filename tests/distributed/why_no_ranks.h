// Says why tests cannot start ranks with mpirun here.
#pragma once

#include <string>

#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/local_launch.h"
#include "schema/core/error.h"

namespace genesis::testing {

// Returns the reason; empty if ranks can be started.
inline std::string why_no_ranks() {
  if (const std::string why = mpi::why_missing(); !why.empty()) return why;
  try {
    mpirun_command(2, {});
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace genesis::testing
