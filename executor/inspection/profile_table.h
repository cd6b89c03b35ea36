// Shows how the time of an entry point is spent: a row for each node or each op, from the measured times of a plan's steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "executor/runtime/peaks.h"
#include "schema/graph/plan.h"

namespace genesis {

// The measured times of a plan's steps.
struct StepTimes {
  std::vector<double> us,
      median_us;  // by step: of the fastest run, since disturbances only ever add time; over all runs
  std::vector<std::string> kernels;
};

struct ProfileRow {
  std::string name, op;
  int64_t count = 0;                   // steps
  std::map<std::string, int> kernels;  // number of steps by kernel
  double us = 0, median_us = 0, bytes = 0, flops = 0;
  double judged_us = 0, least_us = 0;  // steps that can be compared with the device's limits

  double gbps() const { return us > 0 ? bytes / us / 1e3 : 0; }
  double gflops() const { return us > 0 ? flops / us / 1e3 : 0; }
  bool judged() const { return judged_us > 0; }
  // Returns the share of the time that the device would need at its limits: memory at full bandwidth or
  // multiplications at full rate.
  double roofline() const { return least_us / judged_us; }
  bool too_fast() const { return judged() && roofline() > 1; }
};

// Shorter steps are not judged: launching one takes as long as its work.
inline constexpr double kShortestJudgedMicroseconds = 2;

// Returns the rows of a plan, the longest first. With `by_op`, nodes of one op are summed up.
std::vector<ProfileRow> profile_table(const Plan& plan, const StepTimes& times, const DevicePeaks& peaks,
                                      bool by_op);

}  // namespace genesis
