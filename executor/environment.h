// The environment variables Genesis reads, all of them; docs/debugging.md has the same table.
#pragma once

#include <set>
#include <string>

namespace genesis {

struct Environment {
  std::string log_level = "info";   // GENESIS_LOG: trace, debug, info, warn, error, off
  std::string dump_folder;          // GENESIS_DUMP: folder for the graph after every pass that changed it
  std::set<std::string> disabled;   // GENESIS_DISABLE: as SessionOptions::disabled, comma-separated
  double collective_timeout = 600;  // GENESIS_COLLECTIVE_TIMEOUT: seconds that ranks wait for each other
  // GENESIS_STDOUT: "file" tells a rank that what it writes ends up in a file or a pipe, though mpirun gives it a terminal of its
  // own. Set where the tool starts mpirun.
  std::string output_kind;
  // GENESIS_ONE_COMMAND: not empty tells a rank that all have the same command line. Set where the tool starts its ranks.
  bool one_command = false;
};

const Environment& environment();  // read once

}  // namespace genesis
