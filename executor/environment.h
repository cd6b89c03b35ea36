// Lists every environment variable that Genesis reads; docs/debugging.md has the same table.
#pragma once

#include <set>
#include <string>

namespace genesis {

struct Environment {
  std::string log_level = "info";   // GENESIS_LOG: trace, debug, info, warn, error, off
  std::string dump_folder;          // GENESIS_DUMP: folder for the graph after every pass that changed it
  std::set<std::string> disabled;   // GENESIS_DISABLE: comma-separated, like SessionOptions::disabled
  std::string plugins;              // GENESIS_PLUGINS: paths of plugins, separated by ':'
  double collective_timeout = 600;  // GENESIS_COLLECTIVE_TIMEOUT: seconds that ranks wait for each other
  // GENESIS_STDOUT: "file" tells a rank that its output ends up in a file or a pipe, although mpirun gives the rank a terminal.
  // Set by the tool when it starts mpirun.
  std::string output_kind;
  // GENESIS_ONE_COMMAND: a non-empty value tells a rank that all ranks have the same command line. Set by the tool when it starts
  // the ranks.
  bool one_command = false;
};

const Environment& environment();  // read from the process once

}  // namespace genesis
