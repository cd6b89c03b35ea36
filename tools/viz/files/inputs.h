// Reads the inputs of genesis-viz other than models: metrics of training runs, profiles and traces. Errors name the
// file, the place in it and what was expected there.
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
  Curve evaluation;  // only at steps that have an evaluation
};

// Reads the file of `genesis-run train --metrics FILE`: one JSON object per line. A null loss was not finite. The
// last line may be cut short, because a killed run leaves it so.
Losses read_losses(const std::string& path);

// Reads the output of `genesis-run profile --json`: microseconds by node name.
std::map<std::string, double> read_times(const std::string& path);

// A file in the Trace Event Format, as `genesis-run profile --trace` and other programs write it.
struct Trace {
  struct Span {
    double start_us, end_us;
    std::string name, op;  // op: its category
  };
  struct Track {
    std::string name;  // with several processes, includes the process name
    std::vector<Span> spans;
  };
  std::string title;  // name of the first process
  std::vector<Track> tracks;
};

// Reads a trace. If one process shows the steps one after another and another one shows the real timeline, only the
// latter is read.
Trace read_trace(const std::string& path);

}  // namespace genesis::viz
