// Converts the results of two runs, value by value, or the first value that was not finite, to `Numerics` of
// tools/viz/page/data.d.ts.
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

// The first value whose sides differ by more than its tolerance, with all elements of both sides.
struct FirstDifference {
  ComparedValue value;
  int64_t element = 0;
  std::string message;
  std::vector<double> a, b;
};

struct Comparison {
  std::string entry, a, b;  // a, b: options of the runs, as on the command line
  std::string criterion;    // criterion of equality, in words
  std::vector<ComparedValue> values;
  std::vector<FirstDifference> first;  // at most one
};

Json numerics_data(const Comparison& comparison, Tables& tables);

// Describes the first value that was not finite, with the inputs and outputs of its node. `ran`: the options of the
// run, as on the command line.
Json nonfinite_data(const NonfiniteError& error, const std::string& ran, Tables& tables);

// Returns histograms of both sides with cells of equal width between the smallest and the largest finite number.
// Other values are counted separately. `b` may be empty if there is only one side.
Json histogram_data(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace genesis::viz
