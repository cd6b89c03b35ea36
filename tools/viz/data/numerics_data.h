// What two runs of an entry point computed, value by value, and where a run was first not finite: `Numerics` of tools/viz/page/data.d.ts.
#pragma once

#include <string>
#include <vector>

#include "executor/runtime/runner.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

struct ComparedValue {
  std::string node, author, op;
  double error = 0, tolerance = 0;
};

// The first value that differs by more than its tolerance, with all elements of both sides.
struct FirstDifference {
  ComparedValue value;
  int64_t element = 0;
  std::string message;
  std::vector<double> a, b;
};

struct Comparison {
  std::string entry, a, b;  // a, b: what ran, as on the command line
  std::string criterion;    // in words
  std::vector<ComparedValue> values;
  std::vector<FirstDifference> first;  // one, or none
};

Json numerics_data(const Comparison& comparison, Tables& tables);

// Where a value was first not finite, with what its node read and wrote. `ran`: what ran, as on the command line.
Json nonfinite_data(const NonfiniteError& error, const std::string& ran, Tables& tables);

// Counts of both sides in cells of one width between the least and the largest finite number; what is not finite is
// counted beside them. `b` may be empty: there is one side.
Json histogram_data(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace genesis::viz
