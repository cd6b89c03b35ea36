// Detects stopped ranks of this host before all ranks have joined, when they cannot exchange messages yet: it looks at the
// processes of the host (/proc) that have the variables of the same launcher. Without it, the start of a rank link
// (backends/rank_link.h) would wait for a stopped rank until its limit, and could not name it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace genesis {

class JoiningRanks {
 public:
  // Watches the run of this process, as identified by the variables of Open MPI's mpirun, srun or torchrun; with another
  // launcher, nothing is ever found. A rank counts as lost when it is stopped for `silence` seconds.
  JoiningRanks(std::string host, double silence);

  // Names a lost rank; empty: none. To be called by one thread; it looks once a second, however often it is called. The first
  // running rank reports a lost rank some seconds before the others do, so that only one rank of those that end says why. A
  // process held by a debugger does not count.
  std::string who_is_stopped();

 private:
  struct Process {
    int rank;
    bool is_stopped;
  };

  std::vector<Process> processes() const;

  const std::string host_;
  const double silence_;
  std::string rank_variable_;      // "NAME="; empty: no launcher is known
  std::vector<std::string> same_;  // "NAME=value", the same for all ranks of the run
  int rank_ = -1;
  // False once a lower rank was seen running: that rank may report first and have ended since.
  bool is_first_ = true;
  double looked_at_ = 0;           // seconds
  std::map<int, double> stopped_;  // by rank: seconds it has been stopped
};

}  // namespace genesis
