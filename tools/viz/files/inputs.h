// What genesis-viz reads beside models: metrics of a training run, profiles and traces. Errors name the file, the
// place in it and what was expected there.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace genesis::viz {

struct Curve {
  std::vector<double> steps, values;  // a value that is not finite leaves a gap
};

struct Losses {
  Curve training;
  Curve evaluation;  // at the steps that have one
};

// What `genesis-run train --metrics FILE` writes: a JSON object a line. A loss of null was not finite. The
// last line may be cut short, as a run that was killed leaves it.
Losses read_losses(const std::string& path);

// What `genesis-run profile --json` prints: microseconds by the name of a node.
std::map<std::string, double> read_times(const std::string& path);

// A file of the Trace Event Format, as `genesis-run profile --trace` and others write it.
struct Trace {
  struct Span {
    double start_us, end_us;
    std::string name, op;  // op: its category
  };
  struct Track {
    std::string name;  // of the track; of several processes, of both
    std::vector<Span> spans;
  };
  std::string title;  // of the first process
  std::vector<Track> tracks;
};

// Steps that ran one after the other are left out where a process has them as they go.
Trace read_trace(const std::string& path);

}  // namespace genesis::viz
