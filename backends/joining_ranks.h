// Ranks of one host before they have joined, when none can send another a word: a rank that has come finds one that is stopped
// among the processes of its host (/proc), by the variables that their launcher has set. Used while a link of ranks starts
// (backends/rank_link.h), which would else wait for such a rank until its limit and could not name it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace genesis {

class JoiningRanks {
 public:
  // Of the run that this process is a rank of, as Open MPI's mpirun, srun and torchrun's variables say it; of another
  // launcher's, nobody is ever found. A rank is lost when it is stopped for `silence` seconds.
  JoiningRanks(std::string host, double silence);

  // Names a lost rank; empty: none is. It looks once a second, however often one thread calls it. The first rank that runs finds
  // it, and the others some seconds later, so that of ranks that end together one alone says why. A process that a debugger
  // holds is not lost.
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
  std::vector<std::string> same_;  // "NAME=value", as all ranks of the run have them
  int rank_ = -1;
  // Until one ahead of it was seen to run, which may have said who is stopped and have ended since.
  bool is_first_ = true;
  double looked_at_ = 0;           // seconds
  std::map<int, double> stopped_;  // by rank: for how many seconds
};

}  // namespace genesis
